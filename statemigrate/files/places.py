"""Where a checkpoint is, from a path or URI as Hadoop reads it."""

from __future__ import annotations

import os
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
        return hadoop_path(Path(place))
    is_local = uri["scheme"].lower() == "file" and uri["host"] in (None, "", "localhost")
    is_path = is_local and uri["path"].startswith("/")
    return hadoop_path(Path(unquote(uri["path"]))) if is_path else None


def hadoop_path(path: Path) -> Path:
    """The absolute path that Hadoop, and so Spark, makes of one: ``..`` goes by the text.

    Behind a link the system would go to another directory than Spark does.
    """
    normal = os.path.normpath(path.absolute())
    # Two slashes in front are one to all but POSIX.
    return Path(f"/{normal.lstrip('/')}") if normal.startswith("//") else Path(normal)


def is_within(place: str, folder: str) -> bool:
    """Whether a place is another one, or somewhere below it, by their names."""
    return f"{place.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
