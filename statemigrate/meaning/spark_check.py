"""Whether Spark starts new code on a checkpoint: the rules by which it compares state.

Spark compares operators by their numbers and names, and the rows of each state by their types:
names of fields do not count, and a field that may be null was one before. Sources:
``OperatorStateMetadataValidator``, ``StateSchemaCompatibilityChecker`` and
``DataType.equalsIgnoreNameAndCompatibleNullability`` of apache/spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from statemigrate.checkpoint.operators import FamilyShape, StructJson, all_nullable

_WIDER = {"byte": 0, "short": 1, "integer": 2, "long": 3}


@dataclass(frozen=True)
class RowReading:
    """How Spark reads old rows as new ones.

    ``refused`` says why it does not start, of every field, and is empty where it does.
    ``as_other`` are pairs of fields: what is kept as the one is read as the other. ``dropped`` and
    ``empty`` are fields of Avro rows that are not read any more, and that old rows do not have.
    """

    refused: str = ""
    as_other: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether each field is read as what it was written as."""
        return not (self.refused or self.as_other or self.dropped or self.empty)


def reads(old: FamilyShape, new: FamilyShape, *, evolves: bool) -> tuple[RowReading, RowReading]:
    """How Spark reads the keys and the values of a family that ``old`` code has written.

    ``evolves`` is for variables of ``transformWithState`` that are kept as Avro: their values are
    read by the names of their fields.
    """
    compare = _by_name if evolves else _by_place
    if old.wrapping == new.wrapping:
        value = compare(old.content, new.content)
    else:
        value = RowReading(
            "values have a time to live in one of state and code, and none in the other"
        )
    return _by_place(old.key, new.key), value


def reads_struct(old: StructJson, new: StructJson, *, nullable: bool) -> RowReading:
    """How Spark reads rows of one struct as those of another; without ``nullable`` null is free."""
    if not nullable:
        old, new = all_nullable(old), all_nullable(new)
    return _by_place(old, new)


def _by_place(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> RowReading:
    before, after = old["fields"], new["fields"]
    if len(before) != len(after):
        return RowReading(_other_fields(before, after, path))
    refused: list[str] = []
    others: list[tuple[str, str]] = []
    for one, other in zip(before, after, strict=True):
        names = f"{path}{one['name']}", f"{path}{other['name']}"
        refused += _refusals(one, other, names)
        if names[0] != names[1]:
            others.append(names)
        elif _are_structs(one["type"], other["type"]):
            others += _by_place(one["type"], other["type"], f"{names[0]}.").as_other
    if refused:
        return RowReading("; ".join(refused))
    return RowReading(as_other=tuple(others))


def _other_fields(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], path: str
) -> str:
    """Why another number of fields is refused: which are in one of state and code alone."""
    names, others = ([each["name"] for each in fields] for fields in (before, after))
    gone = [name for name in names if name not in others]
    added = [name for name in others if name not in names]
    where = f" of {path.removesuffix('.')}" if path else ""
    text = f"{len(before)} fields{where} are kept, and the code has {len(after)}"
    alone = [("without", gone), ("with", added)]
    listed = [f"{word} {', '.join(found)}" for word, found in alone if found]
    return f"{text}, {' and '.join(listed)}" if listed else text


def _are_structs(one: Any, other: Any) -> bool:
    return all(isinstance(each, Mapping) and each["type"] == "struct" for each in (one, other))


def _refusals(
    old: Mapping[str, Any], new: Mapping[str, Any], names: tuple[str, str]
) -> Iterator[str]:
    called = names[0] if names[0] == names[1] else f"{names[0]} (now {names[1]})"
    if not _same_type(old["type"], new["type"]) and _are_structs(old["type"], new["type"]):
        yield _by_place(old["type"], new["type"], f"{names[0]}.").refused
    elif not _same_type(old["type"], new["type"]):
        yield f"{called} is kept as {_text(old['type'])}, and the code has {_text(new['type'])}"
    elif new["nullable"] and not old["nullable"]:
        yield f"{called} may be null in the code, and is never null in the state"


def _same_type(old: Any, new: Any) -> bool:
    """Whether types are the same but for names, and null is not where it was not."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return bool(old == new)
    if old["type"] != new["type"]:
        return False
    match old["type"]:
        case "struct":
            return len(old["fields"]) == len(new["fields"]) and all(
                _same_type(one["type"], other["type"])
                and (one["nullable"] or not other["nullable"])
                for one, other in zip(old["fields"], new["fields"], strict=True)
            )
        case "array":
            return _same_type(old["elementType"], new["elementType"]) and (
                old["containsNull"] or not new["containsNull"]
            )
        case "map":
            return (
                _same_type(old["keyType"], new["keyType"])
                and _same_type(old["valueType"], new["valueType"])
                and (old["valueContainsNull"] or not new["valueContainsNull"])
            )
    return bool(old == new)


def _by_name(old: Mapping[str, Any], new: Mapping[str, Any]) -> RowReading:
    before = {each["name"]: each for each in old["fields"]}
    after = {each["name"]: each for each in new["fields"]}
    refused = [
        f"{name} is kept as {_text(one)}, and the code has {_text(other)}"
        for name in after
        if name in before
        for one, other in ((before[name]["type"], after[name]["type"]),)
        if not (_same_type(one, other) or _is_widened(one, other))
    ]
    if refused:
        return RowReading("; ".join(refused))
    return RowReading(
        dropped=tuple(name for name in before if name not in after),
        empty=tuple(name for name in after if name not in before),
    )


def _is_widened(old: Any, new: Any) -> bool:
    names = (old, new) if isinstance(old, str) and isinstance(new, str) else ("", "")
    if names[0] in _WIDER and names[1] in _WIDER:
        return _WIDER[names[0]] <= _WIDER[names[1]]
    return names[0] in (*_WIDER, "float") and names[1] in ("float", "double")


def _text(spark: Any) -> str:
    if isinstance(spark, str):
        return spark
    return f"a {spark['type']}"
