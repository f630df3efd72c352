"""A new checkpoint while it is none yet: apart from the old one, one command's, shut to Spark."""
