"""Which old field each new field of a struct goes on with, where no script says it.

Fields go by name. Where Spark's names repeat and are not the same in both, which is which cannot be
known: what stands first is proposed for what stands first, and asked about. So is a field whose old
one the author has given to another: both may go on with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from statemigrate.checkpoint.operators import labels
from statemigrate.errors import RewriteError
from statemigrate.quoting import argument
from statemigrate.rewrite.aggregates import Rule
from statemigrate.rewrite.column_pairing import is_same, is_wider, type_text

Struct = dict[str, Any]
Take = Mapping[str, str | None]
"""By the dotted label of a new field that of the old one it goes on with, None for a new start."""


@dataclass(frozen=True)
class FieldOrigin:
    """A field of the new struct: its dotted label, and the place and label of the old field.

    One that is ``nested`` is a struct that changes within; ``type`` is Spark's, of one that is new
    or derived, which is what the ``rule`` makes of the old field.
    """

    label: str
    change: Literal["kept", "widened", "nested", "new", "derived"]
    place: int | None = None
    source: str = ""
    nested: StructChange | None = None
    type: Any = None
    rule: Rule = ""


@dataclass(frozen=True)
class StructChange:
    """Every field of the new struct in order; ``unsure`` are labels whose source may be another.

    ``dropped`` are old fields that none goes on with, by their dotted labels.
    """

    fields: tuple[FieldOrigin, ...]
    dropped: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether rows stay as they are."""
        order = [each.place for each in self.fields]
        kept = all(each.change == "kept" for each in self.fields)
        return kept and order == list(range(len(order))) and not self.dropped

    @property
    def added(self) -> tuple[FieldOrigin, ...]:
        """The fields that old rows lack, at any depth."""
        return tuple(each for each in self.every if each.change == "new")

    @property
    def every(self) -> tuple[FieldOrigin, ...]:
        """The fields at any depth, those of a struct after all fields of its level."""
        inner = [each.nested.every for each in self.fields if each.nested]
        return (*self.fields, *(field for fields in inner for field in fields))


def match_fields(
    old: Struct, new: Struct, take: Take, store: str, prefix: str = ""
) -> StructChange:
    """Match the fields of two structs. Raises `RewriteError` for types that do not fit."""
    before = [prefix + label for label in labels(old)]
    after = [prefix + label for label in labels(new)]
    sources = _sources(old, new, before, after, take)
    changes = tuple(
        _change(
            (label, new["fields"][place]["type"]),
            None if source is None else (source, before[source], old["fields"][source]["type"]),
            take,
            store,
        )
        for place, (label, source) in enumerate(zip(after, sources, strict=True))
    )
    inner = [each.nested for each in changes if each.nested]
    gone = [label for place, label in enumerate(before) if place not in sources]
    times = Counter(sources)
    shared = [place for place, each in enumerate(sources) if each is not None and times[each] > 1]
    asked = {*_repeated(old, new), *shared}
    unsure = [after[place] for place in sorted(asked) if after[place] not in take]
    return StructChange(
        changes,
        (*gone, *(name for each in inner for name in each.dropped)),
        (*unsure, *(name for each in inner for name in each.unsure)),
    )


def _sources(
    old: Struct, new: Struct, before: list[str], after: list[str], take: Take
) -> list[int | None]:
    """For each new field the place of the old one: the author's, of its name and type, or name.

    An old field that the author gave to another is at last its namesake's too.
    """
    found: dict[int, int | None] = {
        place: before.index(source) if source in before else None
        for place, label in enumerate(after)
        if label in take
        for source in (take[label],)
    }
    left = [place for place in range(len(before)) if place not in found.values()]
    for must_fit in (True, False):
        for place, field in enumerate(new["fields"]):
            same = partial(_fits, field, must_fit=must_fit)
            fitting = [each for each in left if same(old["fields"][each])]
            if place not in found and fitting:
                found[place] = fitting[0]
                left.remove(fitting[0])
    for place, field in enumerate(new["fields"]):
        own = before.index(after[place]) if after[place] in before else None
        if place not in found and own is not None and _goes_on(field, old["fields"][own]):
            found[place] = own
    return [found.get(place) for place in range(len(after))]


def _goes_on(new: dict[str, Any], old: dict[str, Any]) -> bool:
    before, after = old["type"], new["type"]
    return (
        is_same(before, after)
        or is_wider(before, after)
        or (_is_struct(before) and _is_struct(after))
    )


def _fits(new: dict[str, Any], old: dict[str, Any], *, must_fit: bool) -> bool:
    return old["name"] == new["name"] and (not must_fit or is_same(old["type"], new["type"]))


def _repeated(old: Struct, new: Struct) -> list[int]:
    """The places of new fields whose name others have too, not the same ones in the same order."""

    def types(struct: Struct, name: str) -> list[str]:
        return [type_text(each["type"]) for each in struct["fields"] if each["name"] == name]

    pairs = [
        (types(old, each["name"]), types(new, each["name"]))  # of this name in both
        for each in new["fields"]
    ]
    return [
        place
        for place, (before, after) in enumerate(pairs)
        if before and before != after and max(len(before), len(after)) > 1
    ]


def _change(
    new: tuple[str, Any], old: tuple[int, str, Any] | None, take: Take, store: str
) -> FieldOrigin:
    label, spark = new
    if old is None:
        return FieldOrigin(label, "new", type=spark)
    place, source, before = old
    if is_same(before, spark):
        return FieldOrigin(label, "kept", place, source)
    if is_wider(before, spark):
        return FieldOrigin(label, "widened", place, source)
    if _is_struct(before) and _is_struct(spark):
        nested = match_fields(before, spark, take, store, f"{label}.")
        return FieldOrigin(label, "nested", place, source, nested)
    raise RewriteError(
        "SM-REWRITE-017",
        f"{store}: {source} cannot become {label} by itself",
        expected=f"a type that holds every {type_text(before)}",
        found=type_text(spark),
        next_action=f"write what becomes of it in a script: `statemigrate new "
        f"{argument(store)}`; or let it "
        f"start with a value, with --start {store}.{label}=VALUE",
        store=store,
    )


def _is_struct(spark: Any) -> bool:
    return isinstance(spark, dict) and spark["type"] == "struct"


# Which of several old states each field of the one that they become is taken from.


def takes_of_parts(names: Sequence[str], take: Take) -> list[Take]:
    """What the author says of fields, for each of the old states of these names.

    A field with an answer is taken from ``STATE.FIELD``, and of no other state.
    """
    return [dict(_of_part(name, take)) for name in names]


def check_owners(store: str, parts: Mapping[str, StructChange | None]) -> None:
    """Raise `RewriteError` where several old states, by their names, have a field of the new one.

    A script has all fields, and nothing to match.
    """
    for label in dict.fromkeys(label for change in parts.values() for label in _owned(change)):
        owners = [
            name for name, change in parts.items() if change is None or label in _owned(change)
        ]
        if len(owners) > 1:
            raise RewriteError(
                "SM-REWRITE-022",
                f"{' and '.join(owners)} become {store}, and which of them has {store}.{label} is "
                "not known",
                expected="each field in one of them only, or a rule for keys that are in several",
                found=f"{label} in each",
                next_action=f"write a script for {store} with merge(first, second); or take the "
                f"field from one, as in --take {store}.{label}={owners[0]}.{label}",
                store=store,
            )
    if all(change is None for change in parts.values()):
        raise RewriteError(
            "SM-REWRITE-023",
            f"{' and '.join(parts)} become {store}, and no script says what two whole values make",
            expected=f"a script for {store} with merge(first, second)",
            found="scripts of each of them alone",
            next_action=f"write one: `statemigrate new {argument(store)}`",
            store=store,
        )


def owned_fields(change: StructChange) -> list[str]:
    """The labels of the new struct's own fields that old rows have."""
    return [each.label for each in change.fields if each.change != "new"]


def _owned(change: StructChange | None) -> list[str]:
    return [] if change is None else owned_fields(change)


def _of_part(name: str, take: Take) -> Iterator[tuple[str, str | None]]:
    for label, given in take.items():
        # --start gives None, for states that lack the field.
        if given is not None:
            own = given.startswith(f"{name}.")
            yield label, given.removeprefix(f"{name}.") if own else None
