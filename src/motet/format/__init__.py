"""Bytes on the wire and on disk: pure functions from values to bytes and back.

Whatever arrives is checked before it is believed, and refused with a clear error; a length is compared
with its bound before anything is allocated for it.
"""
