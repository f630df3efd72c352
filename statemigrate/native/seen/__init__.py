"""What a start-up check saw, compared again wherever Spark brings the code to (rule 14)."""
