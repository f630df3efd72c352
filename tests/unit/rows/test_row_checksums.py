"""CRC-32C, against an implementation of a bit at a time and the values of RFC 3720."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.rows.buffers import Rows
from statemigrate.checkpoint.rows.wrapping import (
    Spans,
    crc32c,
    summed_deletions,
    with_deletion_checksums,
)


def one_at_a_time(data):
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"", 0),
    ],
)
def test_the_checksums_of_the_standard_are_found(data, checksum):
    assert crc32c(Spans.of(Rows.from_list([data]))).tolist() == [checksum]


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40))))
def test_many_rows_have_each_its_own_checksum(pairs):
    columns = [Spans.of(Rows.from_list([pair[index] for pair in pairs])) for index in (0, 1)]
    assert crc32c(*columns).tolist() == [one_at_a_time(a + b) for a, b in pairs]


@given(st.lists(st.binary(min_size=1, max_size=20)))
def test_deleted_keys_are_read_as_they_were_written(keys):
    written = with_deletion_checksums(Rows.from_list(keys))
    found = summed_deletions(written)
    assert found.content.rows().to_list() == keys
    assert found.differing.size == 0
    for index, each in enumerate(written.to_list()):
        altered = Rows.from_list([bytes([each[0] ^ 1]) + each[1:]])
        assert summed_deletions(altered).differing.tolist() == [0], index
