"""The embedded engine: state in RocksDB, one database a partition, durable in the checkpoint."""
