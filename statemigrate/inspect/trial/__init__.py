"""A dry run: the values of a store taken through their transforms, writing nothing."""
