"""SQL over a consistent snapshot of the tables."""
