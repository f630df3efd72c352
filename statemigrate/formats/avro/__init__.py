"""Avro binary: values checked, written and read. The only importer of fastavro."""
