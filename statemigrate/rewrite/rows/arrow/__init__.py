"""What tasks make of rows as Arrow has them, a batch at a time."""
