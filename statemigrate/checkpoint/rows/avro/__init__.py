"""Rows as Avro, for queries whose state is encoded so: many at a time."""
