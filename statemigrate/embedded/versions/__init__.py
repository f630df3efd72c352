"""Versions: each one's manifest, the epochs that fence writers, and which files may go."""
