"""How patient those are who follow something that grows."""

tail_pause_seconds_min, tail_pause_seconds_max = 0.002, 0.05
"""How long a tail waits when there is nothing new: at first, and after a while."""
