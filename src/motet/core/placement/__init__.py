"""Where replicas go: pure functions over what is where. Streams use them, and tables can."""
