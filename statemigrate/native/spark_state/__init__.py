"""Spark's state as its own readers and metadata tell it."""
