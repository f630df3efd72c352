"""A page's bytes: the header, and a section of sorted entries for each family. No Spark."""
