"""Making a file only if it is not there, on stores that answer in many ways, or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from statemigrate.errors import StorageError, UnsupportedError

ALLOW_RACES = "STATEMIGRATE_ALLOW_RACES"
"""The environment variable by which somebody says: never do two writers start at one time."""
_ATTEMPTS = 4


class ConflictError(StorageError):
    """Two writers made a file of one name at the same time (S3's 409): neither may have it."""


def races_allowed() -> bool:
    """Whether a store without conditional writes may be used as if it had them."""
    return os.environ.get(ALLOW_RACES, "").lower() not in ("", "0", "false", "no")


def no_create(place: str, found: str) -> UnsupportedError:
    """The error for a store on which one of two writers would get no error."""
    return UnsupportedError(
        "SM-STORAGE-002",
        f"{place} cannot make a file only if it is not there",
        expected="a file system or connector with conditional creation: S3A since Hadoop 3.4.2, "
        "HDFS, Azure, Google Cloud Storage, a local disk",
        found=found,
        next_action="update the connector. Or make sure yourself that no two drivers ever use "
        f"one checkpoint at a time, and say so with {ALLOW_RACES}=1: two that do would write over "
        "each other's state without a word",
        path=place,
    )


def create_once(
    data: bytes,
    attempt: Callable[[], None],
    read: Callable[[], bytes],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Create a file by ``attempt``, again after a conflict.

    An attempt raises `FileExistsError` where the file is there. An answer may have been lost on the
    way, and a client that asked again gets the answer that its own file is there; then ``read`` has
    the same ``data``, as no other writer's can.
    """
    for number in range(_ATTEMPTS):
        try:
            attempt()
        except FileExistsError:
            if read() != data:
                raise
        except ConflictError:
            if number == _ATTEMPTS - 1:
                raise
            sleep(0.1 * 2**number)
            continue
        return
