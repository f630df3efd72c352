"""What a rewrite does, decided from two shapes and the author's answers before anything is read."""
