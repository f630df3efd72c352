"""The start-up check: what the driver finds out before a query may run, and compares again."""
