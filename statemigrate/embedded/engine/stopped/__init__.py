"""What is done to the state of a query that does not run, partition by partition."""
