"""A stream on five nodes that are killed and moved about, while clients write down all that they see."""
