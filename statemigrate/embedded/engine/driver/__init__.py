"""What runs on the driver: a query, its batches, and the end of both."""
