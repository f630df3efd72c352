"""What must have come out, computed independently, and what did."""
