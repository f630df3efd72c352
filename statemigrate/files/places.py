"""Where a checkpoint is, from a path or URI as Hadoop reads it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

# hdfs:/x is a URI too; on the local disk it would be a folder named hdfs:.
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//(?P<host>[^/]*))?(?P<path>/.*||(?<=^file:).*)",
    re.DOTALL,
)


def local_path(place: str) -> Path | None:
    """The absolute path of a place on a local or mounted disk; None for any other URI.

    Nothing in a path is a query or a fragment.
    """
    uri = _URI.fullmatch(place)
    if uri is None:
        return Path(place).absolute()
    is_local = uri["scheme"].lower() == "file" and uri["host"] in (None, "", "localhost")
    return Path(unquote(uri["path"])) if is_local and uri["path"].startswith("/") else None


def is_within(place: str, folder: str) -> bool:
    """Whether a place is another one, or somewhere below it, by their names."""
    return f"{place.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
