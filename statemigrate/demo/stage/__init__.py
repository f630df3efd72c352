"""Where the demonstration plays: places, processes, sessions, and the crash."""
