"""Whether everything of an old checkpoint is in the new one, looked at again through Spark."""
