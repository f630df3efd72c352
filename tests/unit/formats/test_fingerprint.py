"""Fingerprints are stored in checkpoints, so they must never change."""

import hashlib
import json
from typing import Any

import pytest

from statemigrate.formats import Avro, Struct


def avro(type_: Any, **field: Any) -> Avro:
    fields = [{"name": "f", "type": type_, **field}]
    return Avro({"type": "record", "name": "r", "fields": fields})


EVERYTHING = (
    "a TINYINT, b SMALLINT, c INT NOT NULL, d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(18,2), h STRING,"
    " i VARCHAR(5), j BINARY, k BOOLEAN, l DATE, m TIMESTAMP, n TIMESTAMP_NTZ, o TIME(3), p VOID,"
    " q ARRAY<INT>, r MAP<STRING, ARRAY<BIGINT>>, s STRUCT<t: INT NOT NULL, u: STRING>"
)


@pytest.mark.parametrize(
    ("format_", "fingerprint"),
    [
        (Struct("a INT"), "55b5c85d68b15efc6d5bf7a7f904535a61f579a4a8baa8531cb43adbdf8f3a54"),
        (Struct(EVERYTHING), "f69ae01c438efb73f937c28f2afac1a3588c19af082d0e57cdb7bc8fe18a39f8"),
        (
            avro({"type": "enum", "name": "e", "symbols": ["A", "B"]}),
            "ed03f2b114c0697b18c3d56df7957ab6bf21322e7aec0885b03195d2c5c56288",
        ),
        (
            avro(["null", {"type": "fixed", "name": "x", "size": 3}, "string"]),
            "7ee79a0c5707c421bab69e73517da932e8d4f504e83b769f0f48ff4a0b23d3f6",
        ),
    ],
)
def test_a_fingerprint_never_changes(format_: Any, fingerprint: str) -> None:
    assert format_.fingerprint == fingerprint


def test_a_fingerprint_is_the_sha256_of_the_canonical_layout() -> None:
    text = '{"fields":[{"name":"a","type":["int","null"]}],"type":"record"}'
    assert Struct("a INT").fingerprint == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Struct("f BIGINT NOT NULL"), avro("long")),
        (Struct("f BIGINT"), avro(["long", "null"])),
        (Struct("f INT COMMENT 'x'"), Struct("f INT")),
        (avro("int", default=5, doc="x", aliases=["g"], order="ignore"), avro("int")),
        (avro({"type": "int"}), avro("int")),
        (avro({"type": "string", "logicalType": "uuid"}), avro("string")),
        (avro({"type": "string", "avro.java.string": "String"}), avro("string")),
        (
            avro({"type": "fixed", "name": "x", "size": 3}),
            avro({"type": "fixed", "name": "n.y", "size": 3, "aliases": ["x"]}),
        ),
    ],
)
def test_formats_with_the_same_bytes_share_a_fingerprint(one: Any, other: Any) -> None:
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Struct("a INT, b INT"), Struct("b INT, a INT")),
        (Struct("f INT"), Struct("f BIGINT")),
        (Struct("f INT"), Struct("g INT")),
        (Struct("f INT"), Struct("f INT NOT NULL")),
        (Struct("f INT"), Struct("f TINYINT")),
        (Struct("f STRING"), Struct("f VARCHAR(9)")),
        (Struct("f DECIMAL(10,2)"), Struct("f DECIMAL(10,3)")),
        (Struct("f DECIMAL(10,2)"), Struct("f DECIMAL(11,2)")),
        (Struct("f TIMESTAMP"), Struct("f TIMESTAMP_NTZ")),
        (Struct("f TIME"), Struct("f TIME(3)")),
        (avro(["null", "int"]), avro(["int", "null"])),
        (avro("int"), avro(["int"])),
        (
            avro({"type": "enum", "name": "e", "symbols": ["A", "B"]}),
            avro({"type": "enum", "name": "e", "symbols": ["B", "A"]}),
        ),
        (
            avro({"type": "fixed", "name": "x", "size": 3}),
            avro({"type": "fixed", "name": "x", "size": 4}),
        ),
    ],
)
def test_formats_with_other_bytes_or_values_have_another_fingerprint(one: Any, other: Any) -> None:
    assert one.fingerprint != other.fingerprint


def test_key_order_in_the_schema_does_not_matter() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "int"}]}
    turned = json.loads(json.dumps(schema, sort_keys=True))
    assert Avro(schema) == Avro(turned)
    assert Avro(schema).fingerprint == Avro(turned).fingerprint
