"""What runs on workers: a visit of a page, and all that a processor meets in it."""
