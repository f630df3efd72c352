"""What a dry run found, told as text, JSON, JUnit or HTML."""
