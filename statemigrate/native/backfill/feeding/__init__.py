"""Chunks that are cut while the query runs, each as large as the batches before allow."""
