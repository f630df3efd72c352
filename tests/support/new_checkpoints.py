"""What a directory is to Spark while a command makes a checkpoint there."""

import json
from pathlib import Path


def is_published(root: Path) -> bool:
    """Whether the file ``metadata`` names a query, as every Spark reads it."""
    try:
        return isinstance(json.loads((root / "metadata").read_bytes())["id"], str)
    except (FileNotFoundError, ValueError):
        return False


def is_shut(root: Path) -> bool:
    """Whether every Spark refuses to start there, or finds nothing of a query at all.

    Spark 3.5 and 4.0 take logs without ``metadata`` for a checkpoint, and begin a query without its
    state on state without logs; what is no JSON all of them refuse.
    """
    if (root / "metadata").exists():
        return not is_published(root)
    names = {each.name for each in root.iterdir()} if root.exists() else set()
    return {name for name in names if not name.startswith(".")} <= {"statemigrate"}
