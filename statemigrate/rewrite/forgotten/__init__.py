"""Families that Spark has forgotten, read again from what it still keeps and brought back."""
