"""The checksums of the blocks of RocksDB's tables, compared before a block is unpacked.

A checksum covers a block and the byte behind it, which says how the block is compressed. Format:
``ComputeBuiltinChecksumWithLastByte`` in ``table/format.cc`` of facebook/rocksdb.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from statemigrate.checkpoint.rows.buffers import Bytes, Integers, within
from statemigrate.checkpoint.rows.wrapping import Spans, crc32c

_NONE, _CRC32C, _XXHASH32, _XXHASH64, _XXH3 = range(5)
_PRIME = 0x6B9083D9
_MASK = np.uint32(0xA282EAD8)
_CHECKSUM = 4
Fits = npt.NDArray[np.bool_]


def matching(kind: int, data: Bytes, starts: Integers, sizes: Integers) -> Fits | None:
    """For each block of a table whether its checksum is that of its bytes.

    None where the table says a ``kind`` of checksum that is not known. The blocks, their last byte
    and their checksum must lie within ``data``.
    """
    stored = within(data, starts + sizes + 1, np.full(starts.size, _CHECKSUM)).data.view("<u4")
    if kind == _NONE:
        return np.ones(starts.size, bool)
    if kind == _CRC32C:
        found = crc32c(Spans(data, starts, sizes + 1))
        masked = ((found >> np.uint32(15)) | (found << np.uint32(17))) + _MASK
        return np.asarray(masked == stored, np.bool_)
    if kind in (_XXHASH32, _XXHASH64, _XXH3):
        numbers = zip(starts.tolist(), sizes.tolist(), strict=True)
        hashes = [_hash(kind, data, start, size) for start, size in numbers]
        return np.asarray(np.array(hashes, np.uint32) == stored, np.bool_)
    return None


def _hash(kind: int, data: Bytes, start: int, size: int) -> int:
    import xxhash

    end = start + size
    if kind == _XXHASH32:
        return int(xxhash.xxh32_intdigest(data[start : end + 1].data))
    if kind == _XXHASH64:
        return int(xxhash.xxh64_intdigest(data[start : end + 1].data)) & 0xFFFFFFFF
    # The last byte is not hashed, but changes the checksum.
    last = int(data[end]) * _PRIME
    return (int(xxhash.xxh3_64_intdigest(data[start:end].data)) ^ last) & 0xFFFFFFFF
