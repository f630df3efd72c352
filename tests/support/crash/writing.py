"""Plain ways to write files, for the tests of the harness itself."""

from __future__ import annotations

import os
from pathlib import Path


def unsynced(root: str) -> None:
    Path(root, "new").write_bytes(b"whole")


def synced(root: str) -> None:
    with Path(root, "new").open("wb") as file:
        file.write(b"whole")
        file.flush()
        os.fsync(file.fileno())
    _sync(root)


def renamed(root: str) -> None:
    with Path(root, "temporary").open("wb") as file:
        file.write(b"whole")
        file.flush()
        os.fsync(file.fileno())
    Path(root, "temporary").rename(Path(root, "new"))


def appended(root: str) -> None:
    with Path(root, "old").open("ab", buffering=0) as file:
        file.write(b"x" * 10)
        file.write(b"x" * 10)


def everything(root: str) -> None:
    os.mkdir(f"{root}/folder")  # noqa: PTH102
    number = os.open(f"{root}/a", os.O_CREAT | os.O_WRONLY)
    os.write(number, b"ab")
    os.pwrite(number, b"c", 1)
    os.fsync(number)
    os.link(f"{root}/a", f"{root}/b")
    os.replace(f"{root}/b", f"{root}/c")  # noqa: PTH105
    os.ftruncate(number, 1)
    os.close(number)
    os.unlink(f"{root}/a")  # noqa: PTH108
    os.rmdir(f"{root}/folder")  # noqa: PTH106
    _sync(root)


def _sync(folder: str) -> None:
    number = os.open(folder, os.O_RDONLY)
    os.fsync(number)
    os.close(number)
