"""statemigrate."""
