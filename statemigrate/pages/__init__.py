"""Many keys in one page: a binary value of Spark's own state, with every entry's family in it."""
