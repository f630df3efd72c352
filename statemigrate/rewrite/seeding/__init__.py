"""A new checkpoint whose state comes from tables: a query that begins with history."""
