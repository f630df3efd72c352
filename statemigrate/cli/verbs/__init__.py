"""The verbs: each maps flags to a command and prints."""
