"""Ending a process at a chosen file operation, and working out what a loss of power leaves."""
