"""Spark's `UnsafeRow`: its types, and columns of Arrow to its bytes and back."""
