"""The columns that a key is made of, and keys as bytes that sort as Spark sorts the keys."""
