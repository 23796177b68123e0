"""A seeded world: the ports in virtual time, with faults, for any number of nodes in one thread.

One seed decides everything that happens here: delays, losses, crashes, what a torn write leaves behind.
The same seed gives the same trace to the byte, in every process and on every supported Python.
"""
