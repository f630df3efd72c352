"""Every verb of the command line as an ordinary function."""
