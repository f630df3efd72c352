"""Settings of the whole test suite."""

from hypothesis import settings

# The same examples on every run and every machine; a failure prints the line that repeats it.
settings.register_profile("repeatable", derandomize=True, print_blob=True, deadline=None)
settings.load_profile("repeatable")
