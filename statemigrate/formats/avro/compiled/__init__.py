"""Functions made for one format each, as source that Python compiles."""
