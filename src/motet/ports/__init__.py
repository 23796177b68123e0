"""What a driver needs of the world, as small protocols: disk, network, objects, time, entropy.

:mod:`motet.real` offers them on this machine, :mod:`motet.sim` in a seeded world with faults. One
contract suite per port (``tests/contract``) runs against both.
"""
