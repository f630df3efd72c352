"""Old state read from its files by tasks that reach them, and never made rows of Spark's."""
