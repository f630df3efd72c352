"""Which operator a state is of, where Spark has not noted it: before 4.0.

Spark 3.5 and older note the schemas of a store, and have no operator but those told apart here, by
names that Spark itself gives to columns and stores. What two of them could have written is told
apart no further: then nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping

from statemigrate.checkpoint.logs.pinned import AGGREGATION_FORMAT, GROUPS_FORMAT, pinned
from statemigrate.checkpoint.operators.catalogue import DEFAULT, JOIN_STORES
from statemigrate.checkpoint.operators.schemas import FamilySchema
from statemigrate.checkpoint.operators.shapes import StructJson

_SESSION_START, _SESSION = "sessionStartTime", "session_window"


def recognised(stores: Mapping[str, FamilySchema], conf: Mapping[str, str]) -> str | None:
    """Spark's name of the operator that has these stores; None where it is not certain.

    ``conf`` are the pinned settings. A function on groups is given the name of Scala's, since
    nothing in its state tells it from Python's.
    """
    if set(stores) == set(JOIN_STORES):
        return "symmetricHashJoin"
    if set(stores) != {DEFAULT}:
        return None
    schema = stores[DEFAULT]
    keys, values = _columns(schema.key), _columns(schema.value)
    signs = {
        "globalLimit": keys == {"key": "void"} and values == {"value": "long"},
        "dedupe": set(values) == {"__dummy__"},
        "dedupeWithinWatermark": set(values) == {"expiresAtMicros"},
        "sessionWindowStateStoreSaveExec": [*keys][-1:] == [_SESSION_START] and _SESSION in values,
        "flatMapGroupsWithState": set(values) <= {"groupState", "timeoutTimestamp"},
        "stateStoreSave": _is_aggregation(set(keys), set(values), conf),
    }
    return next((name for name, holds in signs.items() if holds), None)


def _is_aggregation(keys: set[str], values: set[str], conf: Mapping[str, str]) -> bool:
    """Nothing else is left but what old releases wrote with the input's columns in the value.

    These are dropDuplicates, whose keys are among them, and functions of state format 1.
    """
    formats = pinned(conf, AGGREGATION_FORMAT), pinned(conf, GROUPS_FORMAT)
    return formats == ("2", "2") and not (keys and keys <= values)


def _columns(struct: StructJson) -> dict[str, object]:
    return {str(each["name"]): each["type"] for each in struct["fields"]}
