"""A real node: machines run on real ports in one loop, with its settings, its log and its HTTP face.

Nothing here decides anything about a protocol. :mod:`motet.node.driver` moves bytes and time between
the world and the cores; the rest starts it, watches it and stops it.
"""
