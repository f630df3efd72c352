"""Any file system that Hadoop has a connector for, through Spark's own JVM, on the driver alone."""
