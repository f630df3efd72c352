"""`check`: scripts, code and what was applied, compared without any state."""
