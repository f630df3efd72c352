"""Windows in the keys of state: which ones code makes, and which ones are there."""
