"""The files of new state, written in tasks of Spark, a partition each."""
