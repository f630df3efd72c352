"""How a query's state store wraps rows: by its provider and by what is pinned to the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from statemigrate.checkpoint.logs.pinned import (
    MERGE_OPERATOR,
    ROW_CHECKSUM,
    is_avro,
    is_rocksdb,
    pinned,
)
from statemigrate.errors import UnsupportedError

_DELIMITERS = {"1": b",", "2": b""}


@dataclass(frozen=True)
class RowLayout:
    """What surrounds a row.

    ``delimiter`` is what RocksDB puts between values that it has merged under one key.
    """

    rocksdb: bool
    avro: bool = False
    checksums: bool = False
    delimiter: bytes = b""

    @staticmethod
    def of(conf: Mapping[str, str]) -> RowLayout:
        """The layout of a query with these pinned settings.

        Raises `UnsupportedError` for a provider, an encoding or a merge operator that is not known.
        """
        rocksdb = is_rocksdb(conf)
        merging = pinned(conf, MERGE_OPERATOR)
        if merging not in _DELIMITERS:
            raise UnsupportedError(
                "SM-STATE-009",
                f"state with {MERGE_OPERATOR}={merging} cannot be read or written",
                expected="one of the versions 1 and 2",
                found=merging,
                next_action="leave the state as it is",
            )
        checksums = pinned(conf, ROW_CHECKSUM).lower() == "true"
        # Spark encodes rows as Avro in RocksDB alone, whatever the setting says.
        return RowLayout(rocksdb, rocksdb and is_avro(conf), checksums, _DELIMITERS[merging])
