"""Rows of state taken out of pages, and put into pages."""
