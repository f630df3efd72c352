"""A query's checkpoint as Spark lays it out in files, read without Spark."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.checkpoint.changes import PartitionChange
    from statemigrate.checkpoint.damage import (
        PartitionHashes,
        StateDamage,
        partition_hashes,
        require_state,
        state_damage,
    )
    from statemigrate.checkpoint.directory import (
        EMBEDDED,
        MEANINGS,
        OPERATOR_MEANINGS,
        OWN,
        UNFINISHED,
        CheckpointDirectory,
        seconds_since,
        time_since,
    )
    from statemigrate.checkpoint.epochs import (
        Epoch,
        Fence,
        claim,
        is_listed,
        newest_epoch,
        newest_holder,
        this_driver,
    )
    from statemigrate.checkpoint.shape import describe
    from statemigrate.checkpoint.state import (
        Batch,
        CommittedState,
        OperatorFamily,
        Schemas,
        labelled_paths,
        partitions_of,
        store_version,
        stored_family,
        stored_partition,
        stored_partitions,
    )
else:
    make_face(
        __name__,
        {
            "changes": "PartitionChange",
            "damage": "PartitionHashes StateDamage partition_hashes require_state state_damage",
            "directory": (
                "EMBEDDED MEANINGS OPERATOR_MEANINGS OWN UNFINISHED CheckpointDirectory "
                "seconds_since time_since"
            ),
            "epochs": "Epoch Fence claim is_listed newest_epoch newest_holder this_driver",
            "shape": "describe",
            "state": (
                "Batch CommittedState OperatorFamily Schemas labelled_paths partitions_of "
                "store_version stored_family stored_partition stored_partitions"
            ),
        },
    )
