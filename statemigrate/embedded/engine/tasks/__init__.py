"""What a batch does in a task, to one partition, on a worker."""
