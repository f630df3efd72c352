"""The ids that files of state have in their names, where a checkpoint is of format 2.

The commit of a batch names, for each operator, partition and store, the id of the files that are
the state after it. Source: ``CommitLog.scala``, ``StateStoreCheckpointInfo`` of apache/spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from statemigrate.checkpoint.logs.commits import CommitEntry, StateIds
from statemigrate.checkpoint.logs.pinned import FILE_IDS, PROVIDER, is_rocksdb
from statemigrate.checkpoint.operators.catalogue import JOIN_STORES, used_partitions
from statemigrate.checkpoint.operators.shapes import CheckpointShape, OperatorShape, StoreShape
from statemigrate.errors import UnsupportedError
from statemigrate.rewrite.plan.options import RewriteOptions


def with_file_ids(
    old: CheckpointShape,
    options: RewriteOptions,
    commits: dict[int, CommitEntry],
    operators: Sequence[OperatorShape],
) -> dict[int, CommitEntry]:
    """The commits with ids for the files of the last batch: as the old ones have, or as asked for.

    Raises `UnsupportedError` where they are asked for and the provider has none.
    """
    asked = options.conf.get(FILE_IDS)
    conf = options.pinned(old.conf)
    if asked == "2" and not is_rocksdb(conf):
        raise UnsupportedError(
            "SM-REWRITE-012",
            "the HDFS-backed provider has no files with ids",
            expected=f"--provider rocksdb, for {FILE_IDS}=2",
            found=conf.get(PROVIDER, "no provider, which means the HDFS-backed one"),
            next_action="leave one of both out; nothing was written",
        )
    has_ids = old.commits[old.batch].state_ids is not None if asked is None else asked == "2"
    if not (has_ids and is_rocksdb(conf) and operators):
        return commits
    ids = _ids(f"{old.query_id} {old.batch} {sorted(conf.items())}", operators)
    before = commits[old.batch]
    entry = replace(before, version=max(before.version, 2), state_ids=ids)
    return {**commits, old.batch: entry}


def id_before(this: str) -> str:
    """The id of the version before the one that has the id ``this``."""
    return str(uuid.uuid5(uuid.UUID(this), "before"))


def in_order(stores: Sequence[StoreShape]) -> list[StoreShape]:
    """The stores of an operator in the order of their ids in a commit."""
    return sorted(stores, key=lambda each: JOIN_STORES.index(each.name) if len(stores) > 1 else 0)


def _ids(seed: str, operators: Sequence[OperatorShape]) -> StateIds:
    """The same for the same plan: a rewrite that is taken up again has written some of them."""
    return {
        operator.number: tuple(
            tuple(
                str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {operator.number} {n} {store.name}"))
                for store in in_order(operator.stores)
            )
            for n in range(used_partitions(operator))
        )
        for operator in operators
    }
