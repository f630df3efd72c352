"""Trying scripts that only a rewrite can run: entries whose keys change, or that tables make."""
