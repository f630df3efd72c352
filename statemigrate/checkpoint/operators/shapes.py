"""The shape of a checkpoint: its operators, their stores and families, and what its logs say.

Everything but the rows. It is what is read of an old checkpoint, what a plan compares, and what a
new checkpoint is made from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from statemigrate.checkpoint.logs import CommitEntry, OffsetEntry

StructJson = dict[str, Any]
"""A struct as Spark's ``StructType.json()`` has it, parsed: ``type`` and ``fields``."""


@dataclass(frozen=True)
class NoPrefix:
    """A key is one row."""


@dataclass(frozen=True)
class PrefixScan:
    """A key is a row of its first ``columns``, and one of the others."""

    columns: int


@dataclass(frozen=True)
class RangeScan:
    """The columns at ``ordinals`` come first, written so that their bytes sort as they do."""

    ordinals: tuple[int, ...]


@dataclass(frozen=True)
class TimestampPrefix:
    """The last column, a time, comes before the row of the others."""


@dataclass(frozen=True)
class TimestampPostfix:
    """The last column, a time, comes after the row of the others."""


Wrapping = Literal["none", "expiry", "key", "state"]
"""What is stored with a value's content: when it expires, its key, or when its group times out."""
EXPIRATION = "ttlExpirationMs"
"""The field, in milliseconds since 1970, of a value that expires; its content is in ``value``."""
GROUP_STATE, TIMEOUT = "groupState", "timeoutTimestamp"

KeyEncoder = NoPrefix | PrefixScan | RangeScan | TimestampPrefix | TimestampPostfix
"""How Spark's RocksDB provider makes bytes of a key; see ``RocksDBStateEncoder.scala``."""


@dataclass(frozen=True)
class FamilyShape:
    """A column family, or the only content of a store that has none.

    ``is_list`` says that several values are kept under a key. ``user_key`` is the map key of a
    ``transformWithState`` map. ``wrapping`` is what surrounds a value's `content`.
    """

    name: str
    key: StructJson
    value: StructJson
    encoder: KeyEncoder
    is_list: bool = False
    user_key: StructJson | None = None
    wrapping: Wrapping = "none"

    @property
    def kind(self) -> str:
        """What a variable of ``transformWithState`` is: a value, a list or a map."""
        if self.user_key is not None:
            return "map"
        return "list" if self.is_list else "value"

    @property
    def content(self) -> StructJson:
        """The struct that users know: of a value that expires without when it does."""
        fields = self.value["fields"]
        match self.wrapping:
            case "expiry" | "state":
                content: StructJson = fields[0]["type"]
                return content
            case "key":
                return {**self.value, "fields": fields[len(self.key["fields"]) :]}
        return self.value

    def holding(self, content: StructJson) -> FamilyShape:
        """The same with values of another content."""
        fields = self.value["fields"]
        match self.wrapping:
            case "expiry" | "state":
                fields = [{**fields[0], "type": content}, *fields[1:]]
            case "key":
                fields = [*self.key["fields"], *content["fields"]]
            case _:
                return replace(self, value=content)
        return replace(self, value={**self.value, "fields": fields})


@dataclass(frozen=True)
class StoreShape:
    """A store of every partition: ``default``, or one of a join's four.

    With ``has_families`` the number of the column family is in front of each key.
    """

    name: str
    has_families: bool
    partitions: int
    families: tuple[FamilyShape, ...]


@dataclass(frozen=True)
class OperatorShape:
    """A stateful operator: ``state/<number>``, by Spark's ``name`` of it.

    ``metadata_version`` is 0 where Spark has noted none, before 4.0. ``properties`` are those of
    version 2's metadata, which name the variables of ``transformWithState``.
    """

    number: int
    name: str
    metadata_version: int
    stores: tuple[StoreShape, ...]
    properties: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CheckpointShape:
    """Everything of a checkpoint but its rows, as of its last committed ``batch``.

    The version of the state is ``batch + 1``. ``offsets`` and ``commits`` have that batch and the
    one before, which a restart needs; only the one where the query has had no other.
    """

    query_id: str
    batch: int
    offsets: Mapping[int, OffsetEntry]
    commits: Mapping[int, CommitEntry]
    operators: tuple[OperatorShape, ...]

    @property
    def conf(self) -> Mapping[str, str]:
        """The settings that are pinned to the query: provider, codec, encoding, state formats."""
        return self.offsets[self.batch].conf


# Names of a struct's fields that tell each of them.
#
# Aggregation buffers go by Spark's own names, which repeat: ``count(*), sum(a), avg(b)`` keeps
# ``count, sum, sum, count``. The second of a name is ``sum_2``, a third would be ``sum_3``.


def labelled(struct: dict[str, Any]) -> dict[str, Any]:
    """A struct in Spark's JSON form as users know it: each field by its label.

    What holds nothing, such as the value of ``dropDuplicates``, is left out: see `shown_paths`.
    """
    fields = with_labels(struct)["fields"]
    return {**struct, "fields": [fields[place] for place in shown_paths(struct)]}


def with_labels(struct: dict[str, Any]) -> dict[str, Any]:
    """A struct in Spark's JSON form with all of its fields, each by its label."""
    named = zip(struct["fields"], labels(struct), strict=True)
    return {**struct, "fields": [{**field, "name": label} for field, label in named]}


def shown_paths(struct: dict[str, Any]) -> list[int]:
    """The places of the fields that can hold something."""
    return [place for place, field in enumerate(struct["fields"]) if field["type"] != "void"]


def labels(struct: dict[str, Any]) -> tuple[str, ...]:
    """A name for each field of a struct in Spark's JSON form, in order, none of them twice."""
    names = [str(field["name"]) for field in struct["fields"]]
    taken, seen, found = set(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        label, number = name, seen[name]
        while number > 1 and (label == name or label in taken):
            label, number = f"{name}_{number}", number + 1
        taken.add(label)
        found.append(label)
    return tuple(found)


# The types of rows as they are read: every field by its label, all nullable.


def row_json(struct: StructJson) -> StructJson:
    """The struct of a family's keys or values as their readers have them."""
    found: StructJson = all_nullable(with_labels(struct))
    return found


def all_nullable(spark: Any) -> Any:
    """A type of Spark's, as JSON, all of whose parts may be null, as a state reader's are."""
    if not isinstance(spark, dict):
        return spark
    match spark["type"]:
        case "struct":
            fields = [
                {**each, "type": all_nullable(each["type"]), "nullable": True, "metadata": {}}
                for each in spark["fields"]
            ]
            return {**spark, "fields": fields}
        case "array":
            return {
                **spark,
                "elementType": all_nullable(spark["elementType"]),
                "containsNull": True,
            }
        case "map":
            value = all_nullable(spark["valueType"])
            return {**spark, "valueType": value, "valueContainsNull": True}
    return spark
