"""kazoo's own tests, run against servers that it did not start."""
