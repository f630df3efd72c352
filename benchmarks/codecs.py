"""Values of records like those at work into bytes and back: beside fastavro and JSON."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from benchmarks.measuring import Result
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
    pairs = {"encode": (format_.encode, write, values), "decode": (format_.decode, read, data)}
    found = []
    for name, (ours, theirs, given) in pairs.items():
        # In turn, so that both meet the same disturbances.
        rows = [(least(ours, given, 1), least(theirs, given, 1)) for _ in range(rounds)]
        mine, other = (min(column) for column in zip(*rows, strict=True))
        figures = {"us": mine, "fastavro_us": other, "orjson_us": beside.get(name)}
        title = f"{name}, {kind.name}"
        found.append(Result(title, "speed against fastavro", other / mine, "at least", 1, figures))
    return found
