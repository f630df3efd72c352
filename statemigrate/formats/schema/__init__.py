"""A schema as a tree, and everything that is decided on the tree alone."""
