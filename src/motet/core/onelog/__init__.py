"""The streams of one node: entries and transactions in one log, read back in the order of their clocks."""
