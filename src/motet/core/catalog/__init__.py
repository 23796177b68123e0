"""What a cluster is to hold, as it stands in the keeper: the definitions of streams and tables."""
