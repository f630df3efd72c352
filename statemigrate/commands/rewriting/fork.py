"""`fork`: a query's checkpoint as it was after a batch, in a new place."""

from statemigrate.rewrite.forking.fork import Fork, fork

__all__ = ["Fork", "fork"]
