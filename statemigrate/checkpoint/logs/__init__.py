"""The logs of a query: which offsets a batch had, that it was committed, what a source noted."""
