"""The command line: each verb maps flags to an ordinary function of the library and prints.

The only part of the package that imports click and rich.
"""

from statemigrate.cli.main import main

__all__ = ["main"]
