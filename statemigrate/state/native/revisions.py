"""Which revision the state of one of Spark's own operators has."""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.deployment import revision_in
from statemigrate.errors import StartupError
from statemigrate.formats import Format
from statemigrate.formats.comparison import differences
from statemigrate.formats.struct.shape import shape_of
from statemigrate.migration import Lineage
from statemigrate.native.seen.record import StoreRecord
from statemigrate.shell import argument


def stored_revision(lineage: Lineage, value: Format, key: Format, record: StoreRecord) -> str:
    """The revision of the state whose rows have these keys and values.

    It is the one that a rewrite noted in ``record``. State that none has made is of the oldest
    revision with its formats. Raises `StartupError` where there is none, and where the oldest does
    not say what its keys are and a later one does: then the keys of both may be these.
    """
    noted = record.target and (revision_in(record.target) or lineage.oldest)
    if noted in lineage:
        return str(noted)
    fitting = list(_fitting(lineage, value, key))
    if not fitting:
        raise _none(lineage, value)
    certain = [revision for revision in fitting if lineage.key_of(revision) is not None]
    if certain and fitting[0] not in certain:
        raise _unclear(lineage, key, fitting[0], certain[0])
    return fitting[0]


def _fitting(lineage: Lineage, value: Format, key: Format) -> Iterator[str]:
    for revision, format in zip(lineage.revisions, lineage.formats, strict=True):
        said = lineage.key_of(revision)
        if _is_same(format, value) and (said is None or _is_same(said, key)):
            yield revision


def _is_same(one: Format, other: Format) -> bool:
    return bool(shape_of(one.struct_type()) == shape_of(other.struct_type()))


def _unclear(lineage: Lineage, key: Format, older: str, newer: str) -> StartupError:
    return StartupError(
        "SM-START-029",
        f"store {lineage.store}: its state may be of revision {older}, or of {newer} already",
        expected="scripts whose keys or values differ from one revision to the next",
        found=f"the keys {key!r}, as at {newer}; {older} does not say what its keys are",
        next_action=f"say `new_key` in the baseline of store {lineage.store}: what its keys were "
        "before they changed",
        store=lineage.store,
    )


def _none(lineage: Lineage, value: Format) -> StartupError:
    head = lineage.format_of(lineage.head)
    return StartupError(
        "SM-START-030",
        f"store {lineage.store}: its state has the format, and the keys, of no revision",
        expected=f"one of {', '.join(lineage.revisions)}; the head is {head!r}",
        found="\n".join([*differences(head, value), repr(value)]),
        next_action=f"`statemigrate history {argument(lineage.store)}` lists the scripts; write "
        "one whose "
        "`old` is the format that is found",
        store=lineage.store,
    )
