"""Rows between what a processor puts and gets, and plain values."""
