"""What runs on workers, inside Spark's stateful operators."""
