"""What streams and tables there are: their definitions, which live in the keeper."""
