"""A query's checkpoint as Spark lays it out in files, read without Spark."""
