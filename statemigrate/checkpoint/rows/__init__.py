"""Rows of state as Spark writes them in bytes, many at a time: to Arrow and back, without Spark."""
