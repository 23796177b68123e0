"""The ports on this machine: a folder, TCP, the system's clocks and its randomness.

Everything here moves bytes and decides nothing. The same contract suites that :mod:`motet.sim` passes
run against it, and what cannot be seen through a port (a killed process, a full disk, a peer that talks
nonsense) is tested next to it.
"""
