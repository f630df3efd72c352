"""The same query as it was at a committed batch, in a new place: its files, copied."""
