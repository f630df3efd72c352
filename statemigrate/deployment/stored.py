"""What a checkpoint has: the families of a store, their kinds, and the scripts applied to it.

An engine asks for the facts of a kind and not for its name. A kind that stores what another one
stores, and gives user code another variable over it, needs an entry here, a method of the handle,
and that variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from statemigrate.budget import OnError
from statemigrate.errors import CheckpointError, require_word
from statemigrate.formats import Format, format_from_json
from statemigrate.formats.struct import shape_of
from statemigrate.migration import BASE, Lineage
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    Schema = StructType | str

Kind = Literal["value", "list", "map"]
"""The word for a kind in checkpoints and messages."""


@dataclass(frozen=True)
class VariableKind:
    """What a variable stores under a key.

    ``spark_name`` is its class in Spark, and ``reader_column`` the column of Spark's state reader
    with its values.
    """

    spark_name: str
    reader_column: str
    has_several_values: bool = False
    """A key has several values in an order. They migrate together."""
    has_user_key: bool = False
    """Each value has a key of the user's own, behind the grouping key."""

    @property
    def has_one_value(self) -> bool:
        """Whether a grouping key has one value at most."""
        return not (self.has_several_values or self.has_user_key)

    @property
    def complement(self) -> Kind:
        """The kind of the family with complements: a key with several values has one for all."""
        return "map" if self.has_user_key else "value"

    def variable(
        self, handle: Any, name: str, schema: Schema, user_key: Schema | None, ttl: int | None
    ) -> Any:
        """The variable of this kind that one of Spark's handles gives."""
        types = (user_key, schema) if self.has_user_key else (schema,)
        return getattr(handle, f"get{self.spark_name}")(name, *types, ttl)


VARIABLE_KINDS: Mapping[Kind, VariableKind] = {
    "value": VariableKind("ValueState", "value"),
    "list": VariableKind("ListState", "list_element", has_several_values=True),
    "map": VariableKind("MapState", "user_map_value", has_user_key=True),
}
"""Every kind by its word."""


ENVELOPE = "revision STRING, payload BINARY, timeout BIGINT"
"""The ``stateStructType`` of an ``applyInPandasWithState`` whose function is `migrated`."""


# What the code asks for: its settings, and the state variables its ``init`` declares.


SETTINGS = "__statemigrate__"


@dataclass(frozen=True)
class DeploymentSettings:
    """What `migrated` was given: the scripts' folder, targets by store, and how reads behave.

    What follows ``accept_edited`` is for Spark's own state alone. ``call`` is the one that the user
    wrote.
    """

    migrations: str | Path = "migrations"
    targets: Mapping[str, str] = field(default_factory=dict)
    write_on_read: bool = True
    accept_edited: tuple[str, ...] = ()
    checkpoint: str | None = None
    on_error: OnError = "raise"
    retire_drained: bool = True
    operator: int | None = None
    call: Call = "migrated"
    complement: bool | None = None
    deployed: Mapping[str, str] = field(default_factory=dict)
    """The revisions that older code is run for, by store: there may be newer scripts by now."""

    def __post_init__(self) -> None:
        require_word("on_error", self.on_error, get_args(OnError))

    def target_of(self, store: str) -> str:
        """The revision that the code is written for, as it is given, the head by default."""
        return self.targets.get(store) or self.deployed.get(store, "head")


@dataclass(frozen=True)
class Declared:
    """A state variable as the processor's ``init`` asks for it.

    ``given`` is what it says of the values. Where no code is at hand it is the format that code
    would be written for, so that PySpark is not loaded for its types before somebody asks.
    """

    store: str
    kind: Kind
    given: StructType | Format
    user_key: StructType | None = None
    ttl: int | None = None
    """Time to live in milliseconds; None keeps values for ever."""

    @property
    def variable_kind(self) -> VariableKind:
        """The facts of its kind."""
        return VARIABLE_KINDS[self.kind]

    @property
    def schema(self) -> StructType:
        """The type of the values, of list state that of an element."""
        return self.given.struct_type() if isinstance(self.given, Format) else self.given


Occupancy = Literal["nothing", "something", "unknown"]
"""What a family holds. Only having read it makes the first two: not seen is never empty."""


@dataclass(frozen=True)
class StoredFamily:
    """A family as a checkpoint has it, or may have it."""

    name: str
    revision: str
    format: Format
    occupancy: Occupancy = "unknown"

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        return {"name": self.name, "revision": self.revision, "format": self.format.to_json()}


@dataclass(frozen=True)
class StoredStore:
    """A store as a checkpoint has it: its families, and the scripts applied by checksum.

    The first family is the one that was written to last, the target of what was deployed then.
    ``complement`` is the family of the values' complements, where there is one.
    """

    kind: Kind
    families: tuple[StoredFamily, ...] = ()
    applied: Mapping[str, str] = field(default_factory=dict)
    user_key: dict[str, Any] | None = None
    complement: StoredFamily | None = None

    @property
    def variable_kind(self) -> VariableKind:
        """The facts of its kind."""
        return VARIABLE_KINDS[self.kind]

    @property
    def target(self) -> StoredFamily:
        """The family that was written to last. Raises `CheckpointError` where there is none."""
        if not self.families:
            raise CheckpointError(
                "SM-EMBEDDED-001",
                "A store of the checkpoint has no families.",
                expected="the family that was written to last, and perhaps older ones",
                found=f"a {self.kind} store without any",
                next_action="restore the checkpoint directory from a copy; no deployment has "
                "written this",
            )
        return self.families[0]

    @property
    def every_family(self) -> tuple[StoredFamily, ...]:
        """The families of values, and that of their complements."""
        return self.families if self.complement is None else (*self.families, self.complement)

    @property
    def others(self) -> tuple[StoredFamily, ...]:
        """The families that values are still to leave."""
        return self.families[1:]

    def led_by(self, target: str | None, lineage: Lineage | None) -> StoredStore:
        """The same with its families in order: the one named ``target``, then newest first.

        Where no deployment has left a note of its target, the newest is taken for it.
        """
        revisions = (BASE,) if lineage is None else lineage.revisions
        known = {revision: place for place, revision in enumerate(revisions)}
        ordered = sorted(
            self.families,
            key=lambda each: (each.name == target, known.get(each.revision, -1)),
            reverse=True,
        )
        return replace(self, families=tuple(ordered))

    def marked(self, occupancy: Callable[[str], Occupancy]) -> StoredStore:
        """The same store with what was found in each family, by its name, filled in."""
        families = tuple(replace(each, occupancy=occupancy(each.name)) for each in self.families)
        return replace(self, families=families)

    def to_json(self) -> dict[str, Any]:
        """The form checkpoints hold."""
        # A release that does not know of complements refuses the last of them by its revision.
        families = [each.to_json() for each in self.every_family]
        return {
            "kind": self.kind,
            "families": families,
            "applied": dict(self.applied),
            "user_key": self.user_key,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> StoredStore:
        """Read what `to_json` gave."""
        # What keeps complements has lenses, which only few stores need.
        from statemigrate.families import REVISION as COMPLEMENT

        families = tuple(
            StoredFamily(each["name"], each["revision"], format_from_json(each["format"]))
            for each in document["families"]
        )
        values = tuple(each for each in families if each.revision != COMPLEMENT)
        others = [each for each in families if each.revision == COMPLEMENT]
        return cls(
            document["kind"],
            values,
            document["applied"],
            document["user_key"],
            others[0] if others else None,
        )


def applied_scripts(
    lineage: Lineage, families: Sequence[StoredFamily], recorded: Mapping[str, str]
) -> dict[str, str]:
    """The checksums of the scripts that led to the newest family, as they were ``recorded``.

    A script was applied if a value was stored with it, or with a later one: that it was deployed,
    as a record says, is not enough, since its first batch may have failed.
    """
    known = [each.revision for each in families if each.revision in lineage]
    newest = max(map(lineage.position, known), default=-1)
    return {
        each.revision: recorded.get(each.revision, each.checksum)
        for each in lineage.migrations
        if lineage.position(each.revision) <= newest
    }


# What was read of a store in Spark's own state, before any code is compared with it.


@dataclass(frozen=True)
class StoreFacts:
    """A store as Spark tells of it.

    ``kind`` is None where Spark lists no variable of it, ``user_key`` is the key of a map.
    ``expires`` says of each listed family whether its values do. ``families`` are those listed and,
    last, those that a killed batch may have made without being listed. ``applied`` has the scripts'
    checksums.
    """

    kind: Kind | None = None
    user_key: StructType | None = None
    expires: Mapping[str, bool] = field(default_factory=dict)
    families: tuple[StoredFamily, ...] = ()
    applied: Mapping[str, str] = field(default_factory=dict)
    complement: StoredFamily | None = None

    def stored(self) -> StoredStore | None:
        """What the checkpoint has of the store; None where Spark lists no variable of it."""
        if self.kind is None:
            return None
        return StoredStore(
            self.kind, self.families, self.applied, _document(self.user_key), self.complement
        )

    def stored_for(self, declared: Declared) -> StoredStore | None:
        """The same for code that declares the store; None where there is none of its families.

        A family that is not listed is of the kind that is declared. Nullability and metadata do not
        change what a key is: one that holds the same is as declared.
        """
        if not self.families:
            return None
        stored, asked = self.user_key, declared.user_key
        if self.kind is None or (stored and asked and shape_of(stored) == shape_of(asked)):
            stored = asked
        return StoredStore(
            self.kind or declared.kind,
            self.families,
            self.applied,
            _document(stored),
            self.complement,
        )


def _document(user_key: StructType | None) -> dict[str, Any] | None:
    return None if user_key is None else user_key.jsonValue()


# The names of families: the oldest has its store's own, the others a revision behind an at sign.
#
# So that plain state, from before the first migration, fits in as it is.


_SIGN = "@"


def family_name(lineage: Lineage, revision: str) -> str:
    """The family of a revision, known or not."""
    return lineage.store if revision == lineage.oldest else f"{lineage.store}{_SIGN}{revision}"


def complement_of(store: str) -> StoredFamily:
    """The family of the complements of a store's values."""
    from statemigrate.families import FORMAT, REVISION

    return StoredFamily(f"{store}__complement", REVISION, FORMAT)


def is_family_of(store: str, name: str) -> bool:
    """Whether a family's name is one that `family_name` gives to a revision of ``store``."""
    # A store of plain code, which has no revisions, may have the sign in its own name.
    return name == store or name.startswith(f"{store}{_SIGN}")


def store_of(name: str) -> str:
    """The store of a family of this name."""
    return name.partition(_SIGN)[0]


def revision_in(name: str) -> str | None:
    """The revision that a family's name tells of; None for the oldest, whichever that is."""
    return name.partition(_SIGN)[2] or None


def revision_of(lineage: Lineage, name: str) -> str:
    """The revision of a family by its name: what `family_name` was given."""
    return revision_in(name) or lineage.oldest


# The calls that declare an operator whose state migrates, as messages name them.
# A start on Spark's own state records the call that its code was declared by. A message names that
# one. Where no start has recorded any, it names `stateful`, which the first pages of the
# documentation teach, and then the calls that `stateful` stands for.


Call = Literal["stateful", "migrated"]


def recorded_call(calls: Iterable[Call | None]) -> Call | None:
    """The one call of several stores, None where they have none or several."""
    found = {each for each in calls if each is not None}
    return found.pop() if len(found) == 1 else None


def declared_by(call: Call | None, *, pages: bool = False) -> str:
    """How the operator of a query is declared whose code takes part in a backfill."""
    if pages:
        return "its operator declared by stateful with pages= (or by paged, with migrated)"
    if call == "migrated":
        return "with_backfill around its stream and migrated on its processor"
    if call == "stateful":
        return "its operator declared by stateful"
    return (
        "its operator declared by stateful (or with_backfill around its stream and migrated on "
        "its processor)"
    )


def gets_source(checkpoint: str, call: Call | None) -> str:
    """How a query gets the backfill source that it has run without."""
    by_hand = (
        f"run `statemigrate backfill {argument(checkpoint)} --prepare --apply`, put with_backfill "
        "around its stream"
    )
    if call == "migrated":
        return f"stop the query, {by_hand} and start it again"
    return (
        "stop the query, declare its operator by stateful, which makes room for the source, and "
        f"start it again; or, in place of stateful, {by_hand}"
    )


def written_for(targets: Mapping[str, str], engine: str, call: Call | None) -> str:
    """The call that declares code for older revisions than the heads, by store in ``targets``."""
    named = f"targets={dict(targets)}"
    if engine == "embedded":
        return f"migrated(..., {named})"
    if engine == "paged":
        return f"stateful(..., pages=..., {named}) (or paged, with migrated(..., {named}))"
    own = f"stateful(..., {named})"
    parts = f"migrated(..., {named}, checkpoint=...), and with_backfill around its stream"
    if call is None:
        return f"{own} (or {parts})"
    return own if call == "stateful" else parts
