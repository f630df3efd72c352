"""What a migration makes of each field: emptied, renamed, changed, or lost on the way."""
