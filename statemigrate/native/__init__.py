"""Spark's own state: the same rules over the state variables of ``transformWithState``."""
