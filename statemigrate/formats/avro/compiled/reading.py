"""One function for a format, which reads its values field after field, without asking for types.

A value of three nullable fields takes 0.9 microseconds so, and took 4.7 by fastavro, most of them
for being called. The bytes are those of Avro's specification, section "Binary Encoding"; tests
compare every value, and every refusal, with fastavro.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemigrate.formats.avro.compiled.leaf_reading import (
    KNOWN,
    read_leaf,
    read_raw,
    read_text,
)
from statemigrate.formats.avro.compiled.writing import Columns
from statemigrate.formats.avro.lifting import freezing
from statemigrate.formats.generated import Source
from statemigrate.formats.schema.nodes import Array, Map, Node, Record, Union

_DEPTH = 8
"""Types within types that are still read in one function: Python has limits for nested blocks."""


def compiled_reader(record: Record) -> Callable[[bytes], dict[str, Any]]:
    """The reader of a record without arrays whose items take no bytes.

    It raises any `Exception` for bytes that are not regular, which may be a value all the same.
    """
    source = Source(**KNOWN)
    with source.function("def read(data):"):
        source.line("p = 0")
        _Reading(source, 0).read(record, "value")
        source.line("if p != len(data): raise ValueError")
        source.line("return value")
    read: Callable[[bytes], dict[str, Any]] = source.compiled("read")
    return read


def compiled_row_reader(record: Record, columns: Columns) -> Callable[[bytes], tuple[Any, ...]]:
    """The reader of a record as a tuple of its fields, in the order of ``columns``.

    ``columns`` and what it raises are as for `compiled_row_writer` and `compiled_reader`.
    """
    source = Source(**KNOWN)
    with source.function("def read(data):"):
        source.line("p = 0")
        values = {field.name: source.name("v") for field in record.fields}
        for field in record.fields:
            _Reading(source, 1).read(field.type, values[field.name])
        source.line("if p != len(data): raise ValueError")
        for name, converter in columns:
            source.convert(values[name], converter)
        source.line(f"return ({''.join(f'{values[name]}, ' for name, _ in columns)})")
    read: Callable[[bytes], tuple[Any, ...]] = source.compiled("read")
    return read


class _Reading:
    """Writes the lines that read values, ``depth`` types within the function's own."""

    def __init__(self, source: Source, depth: int) -> None:
        self._source = source
        self._depth = depth

    def read(self, node: Node, target: str) -> None:
        """Read a value into ``target``."""
        if isinstance(node, Record | Array | Map | Union) and self._depth > _DEPTH:
            self._read_apart(node, target)
            return
        match node:
            case Record():
                self._record(node, target)
            case Array():
                self._array(node, target)
            case Map():
                self._map(node, target)
            case Union():
                self._union(node, target)
            case _:
                read_leaf(self._source, node, target)

    @property
    def _inner(self) -> _Reading:
        return _Reading(self._source, self._depth + 1)

    def _read_apart(self, node: Node, target: str) -> None:
        name = self._source.name("f")
        with self._source.function(f"def {name}(data, p):"):
            _Reading(self._source, 0).read(node, "value")
            self._source.line("return value, p")
        self._source.line(f"{target}, p = {name}(data, p)")

    def _record(self, node: Record, target: str) -> None:
        entries = []
        for field in node.fields:
            value = self._source.name("v")
            self._inner.read(field.type, value)
            entries.append(f"{self._source.constant(field.name)}: {value}")
        self._source.line(f"{target} = {{{', '.join(entries)}}}")

    def _union(self, node: Union, target: str) -> None:
        self._source.line("n = data[p]; p += 1")
        for index, branch in enumerate(node.branches):
            with self._source.block(f"{'elif' if index else 'if'} n == {index * 2}:"):
                self._inner.read(branch, target)
        self._source.line("else: raise ValueError")

    def _array(self, node: Array, target: str) -> None:
        item, source = self._source.name("v"), self._source
        source.line(f"{target} = []")

        def read_item() -> None:
            self._inner.read(node.items, item)
            source.line(f"{target}.append({item})")

        self._blocks(read_item)

    def _map(self, node: Map, target: str) -> None:
        key, value, source = self._source.name("k"), self._source.name("v"), self._source
        source.line(f"{target} = {{}}")

        def read_entry() -> None:
            if node.has_text_keys:
                read_text(source, key)
            else:
                self._inner.read(node.keys, key)
                source.line(f"{key} = {source.constant(freezing(node.keys))}({key})")
            self._inner.read(node.values, value)
            source.line(f"{target}[{key}] = {value}")

        self._blocks(read_entry)

    def _blocks(self, read_item: Callable[[], None]) -> None:
        """Items come in blocks with their number; one below zero is left to the strict reader."""
        count, source = self._source.name("n"), self._source
        read_raw(source, count)
        with source.block(f"while {count}:"):
            source.line(f"if {count} & 1: raise ValueError")
            with source.block(f"for _ in range({count} >> 1):"):
                read_item()
            read_raw(source, count)
