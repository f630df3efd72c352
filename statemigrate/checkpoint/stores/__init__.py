"""The files of a state store, of either provider: read and written without Spark."""
