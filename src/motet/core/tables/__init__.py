"""The tables of one node: which there are, which parts they have, and who published what."""
