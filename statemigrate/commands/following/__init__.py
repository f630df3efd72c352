"""Following a migration: how far it is, how fast it goes, and what to do next."""
