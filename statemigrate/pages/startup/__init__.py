"""What runs on the driver: code, scripts and committed pages compared, and what they start with."""
