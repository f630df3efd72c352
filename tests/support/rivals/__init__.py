"""Rival drivers, interleaved at every file operation by a scheduler that a seed repeats."""
