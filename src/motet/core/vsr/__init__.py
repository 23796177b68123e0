"""Viewstamped Replication: one order of operations for a few replicas that crash, lag and have bad disks.

The protocol is TigerBeetle's, under its names; ``replica`` is where to begin reading.
"""
