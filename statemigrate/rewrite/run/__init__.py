"""Carrying a plan out: Spark reads, changes, places and writes the rows, a partition a task."""
