"""Which revision the state of one of Spark's own operators has."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.deployment import revision_in
from statemigrate.errors import StartupError
from statemigrate.formats import Format, compare
from statemigrate.formats.struct.shape import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord


def stored_revision(lineage: Lineage, value: Format, key: Format, record: StoreRecord) -> str:
    """The revision of the state whose rows have these keys and values.

    It is the one that a rewrite noted in ``record``. State that none has made is of the only
    revision whose formats are its own; one that says what its keys are comes before one that does
    not. Raises `StartupError` where that is none, or not one.
    """
    noted = record.target and (revision_in(record.target) or lineage.oldest)
    if noted in lineage:
        return str(noted)
    fitting = list(_fitting(lineage, value, key))
    certain = [revision for revision in fitting if lineage.key_of(revision) is not None]
    chosen = certain if len(certain) == 1 else fitting
    if len(chosen) == 1:
        return chosen[0]
    raise _none(lineage, value) if not chosen else _several(lineage, chosen)


def _fitting(lineage: Lineage, value: Format, key: Format) -> Iterator[str]:
    for revision, format in zip(lineage.revisions, lineage.formats, strict=True):
        said = lineage.key_of(revision)
        if _is_same(format, value) and (said is None or _is_same(said, key)):
            yield revision


def _is_same(one: Format, other: Format) -> bool:
    return bool(shape_of(one.struct_type()) == shape_of(other.struct_type()))


def _none(lineage: Lineage, value: Format) -> StartupError:
    head = lineage.format_of(lineage.head)
    return StartupError(
        f"store {lineage.store}: its state has the format, and the keys, of no revision",
        expected=f"one of {', '.join(lineage.revisions)}; the head is {head!r}",
        found=f"{value!r}\n{compare(head, value)}",
        next_action=f"`statemigrate history {lineage.store}` lists the scripts; write one whose "
        "`old` is the format that is found",
        store=lineage.store,
    )


def _several(lineage: Lineage, revisions: list[str]) -> StartupError:
    return StartupError(
        f"store {lineage.store}: its state may be of several revisions",
        expected="formats, or `new_key`, that tell them apart",
        found=", ".join(revisions),
        next_action="say in the first script what the keys are, with `new_key`, if scripts change "
        "them; what changes the meaning alone needs a field of another name",
        store=lineage.store,
    )
