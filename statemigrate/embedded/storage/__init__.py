"""Durable state: what lies in the checkpoint, and how it gets there whole."""
