"""State in pages of Spark's own: seen as entries, each in the family that it is in."""
