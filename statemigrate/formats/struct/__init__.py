"""Spark's own types: DDL, their JSON, and the rules between them and Avro."""
