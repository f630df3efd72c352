"""The verbs that make a new checkpoint from an old one, and look at what was made."""
