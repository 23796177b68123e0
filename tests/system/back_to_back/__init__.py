"""One stream of operations for two servers, and what each makes of it."""
