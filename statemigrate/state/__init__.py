"""A checkpoint's committed state, whichever engine wrote it."""
