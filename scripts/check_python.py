"""Stop with a clear sentence when this Python cannot run the project."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file runs on whatever Python there is
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(
        f"statemigrate needs Python 3.11 or newer, this is {found}.\n"
        "  next: install one and run make again with PYTHON=python3.11"
    )
