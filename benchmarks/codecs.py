"""Values of records like those at work into bytes and back: by both codecs, and by fastavro."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from benchmarks.measuring import Result, codec_in_python
from benchmarks.peers import orjson_microseconds
from benchmarks.records import KINDS, RecordKind, least
from statemigrate.formats import Struct


def measure(records: int = 2_000, rounds: int = 9) -> list[Result]:
    """Microseconds of a processor for each kind, against fastavro; JSON's are among the figures."""
    json = orjson_microseconds(records, rounds) or [{} for _ in KINDS]
    return [
        result
        for kind, beside in zip(KINDS, json, strict=True)
        for result in _kind(kind, records, rounds, beside)
    ]


def _kind(kind: RecordKind, records: int, rounds: int, beside: dict[str, float]) -> list[Result]:
    import fastavro

    format_ = Struct(kind.ddl)
    schema = fastavro.parse_schema(format_.avro_schema)

    def write(value: Any) -> bytes:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, value)
        return buffer.getvalue()

    def read(data: bytes) -> Any:
        return fastavro.schemaless_reader(BytesIO(data), schema)

    values = [kind.value(number) for number in range(records)]
    data = [format_.encode(value) for value in values]
    assert data == [write(value) for value in values]
    with codec_in_python():
        pure = Struct(kind.ddl)
        assert data == [pure.encode(value) for value in values]
        assert values == [pure.decode(each) for each in data]
    triples = {
        "encode": (format_.encode, pure.encode, write, values),
        "decode": (format_.decode, pure.decode, read, data),
    }
    found = []
    for name, (*ways, given) in triples.items():
        # In turn, so that all meet the same disturbances.
        rows = [[least(way, given, 1) for way in ways] for _ in range(rounds)]
        compiled, python, other = (min(column) for column in zip(*rows, strict=True))
        figures = {"fastavro_us": other, "orjson_us": beside.get(name)}
        for title, ours, limit in (
            (f"{name}, {kind.name}", compiled, 5),
            (f"{name} in Python, {kind.name}", python, 1),
        ):
            ratio, of = other / ours, "speed against fastavro"
            found.append(Result(title, of, ratio, "at least", limit, {"us": ours, **figures}))
    return found
