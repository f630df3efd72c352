"""Rows of state as columns of Spark: read, changed, looked at, never taken to the driver."""
