"""Where the rows of a forgotten family still are, and the record of families brought back.

What a new checkpoint keeps of families that were brought back into it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from statemigrate.checkpoint.logs import batches_in, names_in, read_commit
from statemigrate.checkpoint.operators import (
    DEFAULT,
    CheckpointShape,
    FamilySchema,
    FamilyShape,
    OperatorShape,
    StructJson,
    entry_of,
    is_derived,
    read_operator,
    used_partitions,
    written_v3,
)
from statemigrate.checkpoint.stores import provider_of, store_folder
from statemigrate.deployment import is_family_of, revision_in
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, check_shape, sealed, understood, unsealed
from statemigrate.migration import Lineage
from statemigrate.native import ForgottenFamily, column_families
from statemigrate.rewrite.column_pairing import FamilyAddress
from statemigrate.rewrite.origin import RESTORED
from statemigrate.rewrite.rewrite_report import Checksum

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


# Where the rows of a forgotten family still are, and their shape.
#
# Spark keeps the state of earlier batches (``spark.sql.streaming.minBatchesToRetain``), and there
# its metadata list the family: it is read as of the last batch that had it. After more batches than
# these both are gone. The family's column family stays in the database all the same, as no code
# touches what it does not declare: there it is read as of the newest batch, and the scripts say
# what it is.


_VARIABLES = "stateVariables"


@dataclass(frozen=True)
class FamilySource:
    """Where the rows of a ``forgotten`` family are read: as of ``batch``.

    ``families`` are the shapes of it and of what Spark derives from it, ``variable`` is what
    Spark's metadata say of it. ``metadata`` are those that Spark's reader is shown where its own do
    not list the family, by their paths.
    """

    forgotten: ForgottenFamily
    batch: int
    families: tuple[FamilyShape, ...]
    variable: Mapping[str, Any]
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The family's."""
        return self.forgotten.name

    @property
    def family(self) -> FamilyShape:
        """The shape of its own rows."""
        return next(each for each in self.families if each.name == self.name)

    def address(self, operator: OperatorShape) -> FamilyAddress:
        """The family in the operator that has it again."""
        store = next(each for each in operator.stores if each.name == DEFAULT)
        return FamilyAddress(store, next(each for each in store.families if each.name == self.name))


@dataclass(frozen=True)
class Sources:
    """What becomes of the ``families`` that Spark has forgotten, and the ``operator`` with them.

    ``lost`` has by name why one of them is nowhere any more.
    """

    operator: OperatorShape
    families: tuple[FamilySource, ...]
    lost: Mapping[str, str]


def find_sources(
    files: Files,
    shape: CheckpointShape,
    number: int,
    forgotten: Sequence[ForgottenFamily],
    lineages: Mapping[str, Lineage],
) -> Sources:
    """Where each ``forgotten`` family of the operator is still to be read.

    ``shape`` is the checkpoint's as of its newest batch. Raises `CheckpointError` for files that
    are not what Spark writes.
    """
    operator = next(each for each in shape.operators if each.number == number)
    names = {each.name for each in forgotten}
    found: list[FamilySource] = []
    lost: dict[str, str] = {}
    # What was forgotten last comes first: its values are newer than those of the others.
    for each in sorted(forgotten, key=lambda family: (-family.batch, family.name)):
        source = _at_its_batch(files, shape, operator, each) or _in_newest(
            files, shape, operator, each, names, lineages
        )
        if isinstance(source, FamilySource):
            found.append(source)
        else:
            lost[each.name] = f"the state after batch {each.batch} is not kept any more, {source}"
    whole = _with_families(operator, found)
    shown = {
        each.name: _shown(whole, files, shape.batch) for each in found if each.batch == shape.batch
    }
    return Sources(
        whole,
        tuple(replace(each, metadata=shown.get(each.name, {})) for each in found),
        lost,
    )


def _at_its_batch(
    files: Files, shape: CheckpointShape, operator: OperatorShape, forgotten: ForgottenFamily
) -> FamilySource | None:
    """As of the last batch that had it; None where Spark keeps no state or no metadata of that."""
    if not forgotten.is_known or not is_state_retained(files, shape, operator, forgotten.batch):
        return None
    try:
        before = read_operator(files, operator.number, forgotten.batch, shape.conf)
    except CheckpointError:
        # Its metadata may be gone before its state is: the newest batch is looked at instead.
        return None
    variable = _variables(before).get(forgotten.name)
    if variable is None:
        return None
    families = tuple(_own(before, forgotten.name))
    return FamilySource(forgotten, forgotten.batch, families, variable)


def is_state_retained(
    files: Files, shape: CheckpointShape, operator: OperatorShape, batch: int
) -> bool:
    """Whether the state after a batch is there, whole."""
    if batch not in batches_in(names_in(files, "commits")):
        return False
    ids = (read_commit(files, batch).state_ids or {}).get(operator.number)
    try:
        for partition in range(used_partitions(operator)):
            unique = ids[partition][0] if ids else None
            folder = store_folder(operator.number, partition)
            provider_of(shape.conf).version(files, folder, batch + 1, shape.conf, unique)
    except CheckpointError:
        # Spark removes files of old versions one by one: then the newest one has the family.
        return False
    return True


def _in_newest(
    files: Files,
    shape: CheckpointShape,
    operator: OperatorShape,
    forgotten: ForgottenFamily,
    names: set[str],
    lineages: Mapping[str, Lineage],
) -> FamilySource | str:
    """As of the newest batch, from the column family that Spark does not list.

    A text says why it cannot be read there.
    """
    known = _variables(operator)
    if forgotten.name in known:
        families = tuple(_own(operator, forgotten.name))
        return FamilySource(forgotten, shape.batch, families, known[forgotten.name])
    there = column_families(files, shape.batch, operator.number)
    if there is None or forgotten.name not in there:
        return "and the newest has no such column family"
    siblings = [n for n in known if is_family_of(forgotten.store, n) and n not in names]
    lineage = lineages.get(forgotten.store)
    revision = revision_in(forgotten.name) or ("" if lineage is None else lineage.oldest)
    if lineage is None or revision not in lineage or not siblings:
        return (
            "and in the newest it is of a format that neither a script nor another family of the "
            "store tells"
        )
    content = lineage.format_of(revision).struct_type().jsonValue()
    families = tuple(_as_sibling(operator, siblings[0], forgotten.name, content))
    if {each.name for each in families} != set(_names_in(there, forgotten.name)):
        return f"and in the newest it is another kind of state than {siblings[0]}"
    variable = {**known[siblings[0]], "stateName": forgotten.name}
    return FamilySource(forgotten, shape.batch, families, variable)


def _own(operator: OperatorShape, name: str) -> Iterator[FamilyShape]:
    """The family of a variable, and those that Spark derives from it."""
    for store in operator.stores:
        by_name = {each.name: each for each in store.families}
        yield from (by_name[each] for each in _names_in(by_name, name))


def _names_in(names: Mapping[str, object] | frozenset[str], name: str) -> Iterator[str]:
    for each in sorted(names):
        if each == name or (is_derived(each) and each.partition("_")[2] == name):
            yield each


def _as_sibling(
    operator: OperatorShape, sibling: str, name: str, content: StructJson
) -> Iterator[FamilyShape]:
    """The families of a variable that is kept as another one of its store, but for its format."""
    for each in _own(operator, sibling):
        own = each.holding(content) if each.name == sibling else each
        yield replace(own, name=each.name.removesuffix(sibling) + name)


def _with_families(operator: OperatorShape, found: Sequence[FamilySource]) -> OperatorShape:
    """The operator with the families that were found, as Spark's metadata would list them."""
    known = _variables(operator)
    variables = [
        *known.values(),
        *(each.variable for each in found if each.name not in known),
    ]
    added = [family for each in found if each.name not in known for family in each.families]
    stores = tuple(
        replace(store, families=(*store.families, *added)) if store.name == DEFAULT else store
        for store in operator.stores
    )
    return replace(
        operator, stores=stores, properties={**(operator.properties or {}), _VARIABLES: variables}
    )


def _variables(operator: OperatorShape) -> dict[str, Mapping[str, Any]]:
    found = (operator.properties or {}).get(_VARIABLES, [])
    return {str(each["stateName"]): each for each in found}


def _shown(operator: OperatorShape, files: Files, batch: int) -> dict[str, bytes]:
    """Metadata as of a batch which list every family of the operator, by their path."""
    folder = f"state/{operator.number}/_metadata/v2"
    run = max(each for each in batches_in(names_in(files, folder)) if each <= batch)
    schemas = {
        store.name: _schema_file(written_v3([_schema(each) for each in store.families]))
        for store in operator.stores
    }
    return {f"{folder}/{run}": entry_of(operator, schemas).data}


def _schema(family: FamilyShape) -> FamilySchema:
    return FamilySchema(family.name, family.key, family.value, family.encoder, family.user_key)


@lru_cache(maxsize=64)
def _schema_file(data: bytes) -> str:
    """A private file with a schema, which the driver reads; its URI."""
    folder = tempfile.mkdtemp(prefix="statemigrate-schema-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "schema")
    path.write_bytes(data)
    return path.as_uri()
