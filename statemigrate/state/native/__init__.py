"""Spark's own state as its reader gives it: rows of families, read as keys and values."""
