"""Everything that decides, and nothing that touches the world.

A core is a machine (see :mod:`motet.core.machine`): events in, a list of effects out. No module below
this package imports sockets, files, time, randomness, threads or asyncio; a contract checked by
``./dev check`` says so.
"""

if not __debug__:
    raise SystemExit("motet checks its own state with assertions: do not run it with python -O")
