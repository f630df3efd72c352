"""What a plan asks its author, and what was answered."""
