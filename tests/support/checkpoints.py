"""Embedded checkpoints made without a query: a store of plain items in two partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.partition import Partition, PartitionPaths
from statemigrate.embedded.versions import publish_manifest
from statemigrate.formats import Struct
from statemigrate.processor.keys import TupleKeyCodec
from statemigrate.scripts import ScriptFolder

OLD, NEW = Struct("cents BIGINT, name STRING"), Struct("amount DECIMAL(18,2), name STRING")
KEY = Struct("id BIGINT").struct_type()
REVISION = "dddd00000001"
FAMILY = StoredFamily("items", "base", OLD)
SCRIPT = f'''"""Amounts as decimals."""
from decimal import Decimal
from statemigrate.formats import Struct

revision = "{REVISION}"
down_revision = None
branch_labels = ("items",)
store = "items"
old = Struct("{OLD.ddl}")
new = Struct("{NEW.ddl}")


def upgrade(value):
    return {{"amount": Decimal(value["cents"]).scaleb(-2), "name": value["name"]}}


def downgrade(value):
    return {{"cents": int(value["amount"].scaleb(2)), "name": value["name"]}}
'''


def item(number: int) -> dict[str, Any]:
    """The value of key ``number``."""
    return {"cents": number * 3, "name": f"item {number}"}


def items(
    root: Path,
    count: int,
    *,
    committed: bool = True,
    applied: Mapping[str, str] | None = None,
    family: StoredFamily = FAMILY,
    complement: StoredFamily | None = None,
    value: Callable[[int], dict[str, Any]] = item,
) -> Path:
    """A checkpoint with the keys 0 to ``count`` - 1, as of batch 0.

    ``applied`` has the checksum of each script that was applied. The values are in ``family``, as
    ``value`` gives them.
    """
    layout = Layout.of(root / "checkpoint")
    states = tuple(_partition(layout, root, number, count, family, value) for number in range(2))
    stores = {"items": StoredStore("value", (family,), applied or {}, complement=complement)}
    publish_manifest(layout, Manifest(0, KEY.jsonValue(), states, stores, {}))
    (layout.checkpoint / "commits").mkdir()
    if committed:
        (layout.checkpoint / "commits" / "0").touch()
    return layout.checkpoint


def scripts(root: Path, text: str = SCRIPT) -> Path:
    """A folder with the one script."""
    folder = ScriptFolder.create(root / "migrations")
    (folder.versions / "amounts.py").write_text(text)
    return folder.directory


def _partition(
    layout: Layout,
    root: Path,
    number: int,
    count: int,
    stored: StoredFamily,
    value: Callable[[int], dict[str, Any]],
) -> PartitionState:
    place = PartitionPaths(number, layout.partition(number), root / f"working-{number}")
    partition = Partition(place, PartitionState(), 0)
    family, keys = partition.target(stored, "value"), TupleKeyCodec(KEY)
    for each in range(number, count, 2):
        family.put(keys.encode((each,)), value(each))
    return partition.commit(snapshot=True)
