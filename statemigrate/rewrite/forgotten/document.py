"""What a new checkpoint keeps of families that were brought back into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape
from statemigrate.files import Files
from statemigrate.files.documents.sealed import sealed, understood, unsealed
from statemigrate.files.documents.shapes import check_shape
from statemigrate.rewrite.rows.checksum import Checksum
from statemigrate.rewrite.run.origin import RESTORED

_FORMAT = 1
_SUM = {"rows": int, "checksum": str}
_PARTS = ("found", "restored", "live", "deleted")
_FAMILY = {
    "store": str,
    "family": str,
    "last_batch": int,
    "is_last_batch_known": bool,
    "read_as_of": int,
    "untold_batches": int,
    **dict.fromkeys(_PARTS, _SUM),
}
_SHAPE = {"format": range(_FORMAT, _FORMAT + 1), "families": [_FAMILY]}


@dataclass(frozen=True)
class RestoredFamily:
    """A family of a ``store`` that was forgotten, as it was read as of a ``batch``.

    Its rows are all that were ``found``: those that are ``restored``, those whose key has a newer
    value in a ``live`` family, and those whose key was ``deleted`` since. As far as is ``known``,
    ``last_batch`` is the last one that had it. Of ``untold`` batches nobody knows what they have
    deleted.
    """

    store: str
    name: str
    batch: int
    last_batch: int
    known: bool
    untold: int
    found: Checksum
    restored: Checksum
    live: Checksum
    deleted: Checksum

    def to_json(self) -> dict[str, Any]:
        """The parts, as they are kept, and as a command prints them for machines."""
        return {
            "store": self.store,
            "family": self.name,
            "last_batch": self.last_batch,
            "is_last_batch_known": self.known,
            "read_as_of": self.batch,
            "untold_batches": self.untold,
            **{name: _sum_json(getattr(self, name)) for name in _PARTS},
        }


def restored_data(families: Sequence[RestoredFamily]) -> bytes:
    """The file that the new checkpoint keeps."""
    return sealed({"format": _FORMAT, "families": [each.to_json() for each in families]})


def read_restored(files: Files) -> dict[str, RestoredFamily]:
    """The families that were brought back into a checkpoint, by name; none into most.

    Raises `CorruptFileError` for a file that was altered.
    """
    place = f"{files.location}/{RESTORED}"
    try:
        document = unsealed(files.get(RESTORED), place)
    except FileNotFoundError:
        return {}
    return understood(place, "what was brought back", lambda: _families(document))


def without_families(shape: CheckpointShape, names: Mapping[str, object]) -> CheckpointShape:
    """The shape of a checkpoint but for families of these names."""
    operators = tuple(_without(each, names) for each in shape.operators)
    return replace(shape, operators=operators) if names else shape


def _without(operator: OperatorShape, names: Mapping[str, object]) -> OperatorShape:
    stores = tuple(
        replace(store, families=tuple(each for each in store.families if each.name not in names))
        for store in operator.stores
    )
    return replace(operator, stores=stores)


def _families(document: dict[str, Any]) -> dict[str, RestoredFamily]:
    check_shape(document, _SHAPE)
    found = [
        RestoredFamily(
            each["store"],
            each["family"],
            each["read_as_of"],
            each["last_batch"],
            each["is_last_batch_known"],
            each["untold_batches"],
            *(Checksum.from_text(each[name]["rows"], each[name]["checksum"]) for name in _PARTS),
        )
        for each in document["families"]
    ]
    return {each.name: each for each in found}


def _sum_json(total: Checksum) -> dict[str, Any]:
    return {"rows": total.count, "checksum": total.text}
