"""The systems that we measure ourselves against, started on loopback in fresh folders and ended by pid."""
