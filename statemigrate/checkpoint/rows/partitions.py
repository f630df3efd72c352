"""In which partition Spark looks for a key: ``pmod(hash(columns), n)``, as in Spark SQL.

Source: apache/spark ``plans/physical/partitioning.scala`` (``HashPartitioning``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from statemigrate.checkpoint.rows.hashing import hash_of
from statemigrate.checkpoint.rows.murmur3 import MURMUR3


def partition_of(columns: Sequence[pa.Array], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key, from 0, of as many ``partitions``.

    ``columns`` are what the query partitions by, as Arrow has them (`RowCodec`). Raises
    `UnsupportedError` for a type that is no key: a map.
    """
    return np.mod(hash_of(columns, MURMUR3).view(np.int32), np.int32(partitions))
