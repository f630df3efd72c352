"""Writing scripts: for a change that is named, for the code, for what a checkpoint has."""
