"""What a folder's files are, to see that nothing has changed them."""

import hashlib
from pathlib import Path


def file_hashes(folder: Path) -> dict[Path, str]:
    """The hash of every file below a folder."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
