"""From a path of the engine's own to one that follows no link.

Nothing of this engine opens, makes or removes a durable file by its bare path: links planted in a
checkpoint would lead it elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

from statemigrate.files import ConfinedPath

# As `Layout` has them. The checkpoint before it is the user's own, and may have links in it.
_BELOW = re.compile(
    r"(?P<checkpoint>.*)/(?P<below>statemigrate/"
    r"(versions|heartbeat|lock|partitions(/[0-9]+(/files)?)?)(/[^/]+)?)"
)


def confined(path: Path) -> ConfinedPath:
    """``path`` below its checkpoint; of a working copy's, the last name below its directory."""
    match = _BELOW.fullmatch(str(path))
    if match is None:
        return ConfinedPath(path.parent, (path.name,))
    return ConfinedPath(Path(match["checkpoint"] or "/"), tuple(match["below"].split("/")))
