"""Batches: what the driver plans and the tasks do, from the start of a query to its end."""
