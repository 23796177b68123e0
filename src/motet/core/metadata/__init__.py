"""The keeper as cores see it: one vocabulary for metadata, whoever keeps it."""
