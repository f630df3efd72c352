"""What deployments on a checkpoint left there about themselves: families, and applied scripts.

A small JSON file in the checkpoint, which Spark passes over. It holds what Spark's own metadata
cannot tell: the checksum each script had when it was deployed, and families that code without
statemigrate no longer declared, so that Spark forgot them while their values are still there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from statemigrate.errors import CorruptFileError
from statemigrate.files import parse_json
from statemigrate.files.opening import Place, open_files

RECORD = "statemigrate/deployed.json"
"""The file, below the checkpoint."""
_FORMAT = 1


@dataclass(frozen=True)
class StoreRecord:
    """One store: the names of its live families, and by revision the checksum of its script.

    ``batch`` is the last one that was committed when the record was made, -1 before the first;
    ``deployment`` names the start-up check that it was made with. ``begun`` are the schema files of
    killed batches that were there by then: nothing of what those wrote is in the state.
    """

    families: tuple[str, ...] = ()
    batch: int = -1
    applied: Mapping[str, str] = field(default_factory=dict)
    deployment: str = ""
    begun: tuple[str, ...] = ()

    @property
    def target(self) -> str | None:
        """The family that the deployment writes to; None where it left no note of it."""
        return self.families[0] if self.families else None


def read_record(checkpoint: Place) -> dict[str, StoreRecord]:
    """The record by store; empty where there is none. Raises `CorruptFileError`."""
    files = open_files(checkpoint)
    try:
        data = files.get(RECORD)
    except FileNotFoundError:
        return {}
    return _parsed(data, f"{files.location}/{RECORD}")


def write_record(checkpoint: Place, record: Mapping[str, StoreRecord]) -> None:
    """Replace the record; a reader sees the old one or the new one.

    Only where a query is known to run: the folder is made below a checkpoint, and nowhere else.
    """
    open_files(checkpoint).replace(RECORD, record_document(record))


def record_document(record: Mapping[str, StoreRecord]) -> bytes:
    """The file that says ``record``."""
    document = {
        "format": _FORMAT,
        "stores": {
            store: {
                "families": list(each.families),
                "batch": each.batch,
                "applied": dict(each.applied),
                "deployment": each.deployment,
                "begun": list(each.begun),
            }
            for store, each in record.items()
        },
    }
    return json.dumps(document, indent=2).encode()


def _parsed(data: bytes, path: str) -> dict[str, StoreRecord]:
    try:
        document: Any = parse_json(data)
        return {
            str(store): StoreRecord(
                tuple(map(str, each["families"])),
                int(each["batch"]),
                {str(revision): str(checksum) for revision, checksum in each["applied"].items()},
                str(each.get("deployment", "")),
                tuple(map(str, each.get("begun", ()))),
            )
            for store, each in {_FORMAT: document["stores"]}[document["format"]].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            "SM-CHECKPOINT-028",
            f"{path} is not a record of deployments",
            expected=f"JSON of format {_FORMAT} with stores, their families and applied scripts",
            found=str(error),
            next_action="restore the file from a copy of the checkpoint; without it the scripts "
            "that were applied cannot be compared",
            path=path,
        ) from error
