"""The framings of Spark's codecs: what is written is read again, what is damaged is said to be."""

import io
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemigrate.checkpoint.codecs import compressing, decompressed
from statemigrate.checkpoint.codecs.lz4 import checksum_of
from statemigrate.errors import UnsupportedError

CODECS = ["lz4", "lzf", "snappy", "zstd"]


def packed(codec: str, *pieces: bytes) -> bytes:
    sink = io.BytesIO()
    writer = compressing(codec, sink)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    return sink.getvalue()


def unpacked(codec: str, data: bytes) -> bytes:
    return b"".join(decompressed(codec, io.BytesIO(data)))


@pytest.mark.parametrize("codec", CODECS)
@given(pieces=st.lists(st.binary(max_size=200), max_size=5), times=st.integers(0, 3000))
def test_what_is_written_is_read_again(codec, pieces, times):
    whole = [*pieces, b"once more " * times]
    assert unpacked(codec, packed(codec, *whole)) == b"".join(whole)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_longer_than_a_block_and_a_piece_is_read_again(codec):
    data = bytes(range(256)) * (1 << 15) + b"the end"
    assert unpacked(codec, packed(codec, data[:-70_000], data[-70_000:])) == data


@pytest.mark.parametrize("codec", CODECS)
def test_one_stream_may_follow_another(codec):
    assert unpacked(codec, packed(codec, b"one, ") + packed(codec, b"two")) == b"one, two"


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_other_bytes_but_nothing_else(codec, data):
    good = packed(codec, b"some content, some content, and then other content" * 20)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = bytes([data.draw(st.integers(0, 255))])
    cut = data.draw(st.booleans())
    with suppress(ValueError):
        unpacked(codec, good[:at] if cut else good[:at] + changed + good[at + 1 :])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_file_that_ends_too_early_is_refused(codec):
    good = packed(codec, b"content" * 10_000)
    for size in (1, 7, len(good) // 2, len(good) - 1):
        with pytest.raises(ValueError, match=r"\w"):
            unpacked(codec, good[:size])


def test_a_block_of_lz4_with_other_content_is_found_by_its_checksum():
    good = bytearray(packed("lz4", b"\x01\x02\x03"))
    good[21] ^= 0xFF
    with pytest.raises(ValueError, match="checksum"):
        unpacked("lz4", bytes(good))


@pytest.mark.parametrize(("content", "expected"), [(b"", 0x0D3B42D8), (b"abc", 0x0D4CB222)])
def test_a_checksum_is_28_bits_of_xxh32_with_the_seed_of_lz4_java(content, expected):
    # As the specification's own steps give it, which this package once took one by one.
    assert checksum_of(content) == expected


@pytest.mark.parametrize("work", [compressing, decompressed])
def test_another_codec_is_refused_by_its_name(work):
    with pytest.raises(UnsupportedError, match="'brotli'"):
        work("brotli", io.BytesIO())
