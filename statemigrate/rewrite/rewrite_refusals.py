"""State that cannot be rewritten yet, refused by name while nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from statemigrate.checkpoint.logs import (
    AGGREGATION_FORMAT,
    ENCODING,
    FILE_IDS,
    GROUPS_FORMAT,
    JOIN_FORMAT,
    PROVIDER,
    CommitEntry,
    StateIds,
    codec_of,
)
from statemigrate.checkpoint.logs import pinned as pinned_value
from statemigrate.checkpoint.operators import (
    JOIN_STORES,
    CheckpointShape,
    FamilyShape,
    OperatorShape,
    StoreShape,
    TimestampPostfix,
    TimestampPrefix,
    is_derived,
    is_internal,
    is_timers,
    kind_of,
    used_partitions,
    with_labels,
)
from statemigrate.checkpoint.rows import KeyCodec, ValueCodec
from statemigrate.checkpoint.stores import provider_of, row_layout
from statemigrate.errors import RewriteError, UnsupportedError
from statemigrate.rewrite.sources import RewriteOptions


def refuse_unnamed_formats(old: CheckpointShape, pinned: Mapping[str, str]) -> None:
    """Raise `RewriteError` where a state format changes, and no new code shows the new one."""
    for setting in (AGGREGATION_FORMAT, JOIN_FORMAT, GROUPS_FORMAT):
        before, after = (pinned_value(conf, setting) for conf in (old.conf, pinned))
        if before != after:
            raise RewriteError(
                "SM-REWRITE-030",
                "state of another format is what Spark itself shows of it",
                expected="the new code, which is run with the new format",
                found=f"{setting} from {before} to {after}, and no new code",
                next_action="say it with --code, or with --like; it may be the code there is",
            )


def refuse_timed(old: OperatorShape, new: OperatorShape, scripts: Iterable[str]) -> None:
    """Raise `UnsupportedError` for what cannot be done to a join of state format 4.

    ``scripts`` are the stores of the old operator whose scripts are to be run.
    """
    if _is_timed(old) != _is_timed(new):
        raise _unsupported(
            "SM-REWRITE-031",
            f"operator {old.number} is a join whose state format goes to 4, or from there",
            "state format 4 in both, or in none",
            f"{'4' if _is_timed(old) else 'another'} before, "
            f"and {'4' if _is_timed(new) else 'another'} in the new code",
            f"keep {JOIN_FORMAT} as it is",
        )
    for store in scripts if _is_timed(old) else ():
        raise _unsupported(
            "SM-REWRITE-032",
            f"{store} is of a join of state format 4, whose rows lie by their event time",
            "fields that stay, go or begin as is asked",
            f"a script of {store}",
            "leave the script out",
        )


def _is_timed(operator: OperatorShape) -> bool:
    encoders = (each.encoder for store in operator.stores for each in store.families)
    return any(isinstance(each, TimestampPrefix | TimestampPostfix) for each in encoders)


def refuse_unsupported(old: CheckpointShape, new: CheckpointShape) -> None:
    """Raise `UnsupportedError` for state that could not be read, or could not be written."""
    for shape in (old, new):
        for operator, family in _families(shape):
            _refuse_family(operator, family)
    _check_settings(old, new)
    _check_writable(new)


def _check_settings(old: CheckpointShape, new: CheckpointShape) -> None:
    """Spark reads no other setting from a checkpoint than those of its queries' plans."""
    for name in sorted(set(new.conf) - set(old.conf)):
        if not name.startswith("spark.sql."):
            raise _unsupported(
                "SM-REWRITE-033",
                f"{name} is not pinned to a query",
                f"a setting that the checkpoint has, as {', '.join(sorted(old.conf)[:3])}",
                name,
                "give it to the session that runs the query, and leave out --conf",
            )


def _check_writable(new: CheckpointShape) -> None:
    codec_of(new.conf)
    layout, provider = row_layout(new.conf), provider_of(new.conf)
    plain = [each for each in new.operators if not kind_of(each.name).has_variables]
    if layout.avro and plain:
        raise _unsupported(
            "SM-REWRITE-034",
            "Spark has state in the Avro encoding for transformWithState alone",
            f"{ENCODING}=unsaferow",
            f"avro, for operator {plain[0].number}, {plain[0].name}",
            f"add --conf {ENCODING}=unsaferow; Spark takes the encoding from the new checkpoint",
        )
    for operator, family in _families(new):
        if not provider.has_families and operator.metadata_version > 1:
            raise _unsupported(
                "SM-REWRITE-035",
                f"the state of operator {operator.number}, {operator.name}, needs RocksDB",
                "--provider rocksdb",
                f"the {provider.label} provider",
                "keep RocksDB for this query",
            )
        # A type that cannot be written is refused here, and not by the first row.
        KeyCodec(with_labels(family.key), family.encoder, layout)
        ValueCodec(with_labels(family.value), layout, is_list=family.is_list)


def _refuse_family(operator: OperatorShape, family: FamilyShape) -> None:
    known = is_timers(family.name) or is_derived(family.name)
    if is_internal(family.name) and not known:
        raise _unsupported(
            "SM-REWRITE-036",
            f"operator {operator.number} keeps something that is not known",
            "the families of variables, their lengths, times to live and timers",
            family.name,
            "migrate the query live",
        )


def _families(shape: CheckpointShape) -> Iterator[tuple[OperatorShape, FamilyShape]]:
    for operator in shape.operators:
        for store in operator.stores:
            for family in store.families:
                yield operator, family


def _unsupported(
    code: str, summary: str, expected: str, found: str, action: str
) -> UnsupportedError:
    return UnsupportedError(
        code, summary, expected=expected, found=found, next_action=f"{action}; nothing was written"
    )


# The ids that files of state have in their names, where a checkpoint is of format 2.
#
# The commit of a batch names, for each operator, partition and store, the id of the files that are
# the state after it. Source: ``CommitLog.scala``, ``StateStoreCheckpointInfo`` of apache/spark.


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
    provider = provider_of(conf)
    if asked == "2" and not provider.has_file_ids:
        raise UnsupportedError(
            "SM-REWRITE-012",
            f"the {provider.label} provider has no files with ids",
            expected=f"--provider rocksdb, for {FILE_IDS}=2",
            found=conf.get(PROVIDER, "no provider, which means the HDFS-backed one"),
            next_action="leave one of both out; nothing was written",
        )
    has_ids = old.commits[old.batch].state_ids is not None if asked is None else asked == "2"
    if not (has_ids and provider.has_file_ids and operators):
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
