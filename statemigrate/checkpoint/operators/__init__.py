"""What Spark notes of stateful operators and their stores, and what each operator keeps."""
