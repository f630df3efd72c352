"""What becomes of an operator's state follows from the facts of its kind, whatever it is called."""

import json
import re
from dataclasses import replace

import pytest
from rewrite_shapes import buffers, checkpoint, struct

from statemigrate.checkpoint.operators import catalogue
from statemigrate.checkpoint.operators.catalogue import KINDS, operator_stores, user_stores
from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    PrefixScan,
    StoreShape,
)
from statemigrate.errors import StatemigrateError
from statemigrate.meaning.type_changes import compare_operators
from statemigrate.rewrite.rewrite_plan import make_plan, plan_document

KEY = struct("k STRING, w STRUCT<start: TIMESTAMP, end: TIMESTAMP>")
SESSION_KEY = struct("k STRING, sessionStartTime TIMESTAMP")
SESSION = "session_window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, k STRING"
ROW = struct("field0 STRING, index BIGINT")


def family(name, key, value, encoder=None):
    return FamilyShape(name, key, value, encoder or NoPrefix())


def stores(*families, has_families=False):
    return (StoreShape("default", has_families, 2, families),)


def one(key, value, encoder=None):
    return stores(family("default", key, value, encoder))


def sides(value):
    return tuple(
        StoreShape(f"{side}-{name}", False, 2, (family("default", key, content),))
        for side in ("left", "right")
        for name, key, content in (
            ("keyToNumValues", struct("field0 STRING"), struct("value BIGINT")),
            ("keyWithIndexToValue", ROW, value),
        )
    )


def variables(value):
    return stores(
        family("default", struct("key STRING"), struct("value STRING")),
        family("tally", struct("key STRUCT<k: STRING>"), value),
        family("$eventTimers_keyToTimestamp", struct("key STRING, at BIGINT"), struct("v BIGINT")),
        has_families=True,
    )


STATES = {
    "aggregation": [
        one(KEY, buffers(*fields))
        for fields in (
            [("sum", "long")],
            [("sum", "long"), ("max", "long")],
            [("sum", "double")],
            [("max", "long"), ("count", "long")],
        )
    ],
    "deduplicate": [
        one(key, struct("__dummy__ VOID")) for key in (KEY, struct("k STRING"), struct("n INT"))
    ],
    "deduplicate-within-watermark": [
        one(key, struct("expiresAtMicros BIGINT")) for key in (KEY, struct("k STRING"))
    ],
    "session-window": [
        one(SESSION_KEY, struct(f"{SESSION}, {more}"), PrefixScan(1))
        for more in ("count BIGINT", "count BIGINT, max INT", "max INT")
    ],
    "join": [
        sides(struct(ddl)) for ddl in ("v INT, matched BOOLEAN", "v INT, x STRING, matched BOOLEAN")
    ],
    "groups": [
        one(KEY, struct(ddl))
        for ddl in (
            "groupState STRUCT<n: INT>, timeoutTimestamp BIGINT",
            "groupState STRUCT<n: BIGINT, last: STRING>, timeoutTimestamp BIGINT",
        )
    ],
    "transform-with-state": [variables(struct(ddl)) for ddl in ("n INT", "n BIGINT", "s STRING")],
    "limit": [one(struct("key VOID"), struct("value BIGINT"))],
}
"""States of each kind; each becomes each."""
TWIN, WORD = "operatorOfTomorrow", "tomorrow"


def outcomes(name):
    """What becomes of each state: as a plan, and where code goes on with it."""
    kind = catalogue.kind_of(name)
    shapes = [OperatorShape(0, name, 1, each) for each in STATES[MEANT[kind.word]]]
    for before in shapes:
        yield list(operator_stores(checkpoint(before))), list(user_stores(before))
        for after in shapes:
            yield [repr(each) for each in compare_operators([before], [after], {}, evolves=True)]
            try:
                plan = make_plan(checkpoint(before), [after])
            except StatemigrateError as error:
                yield error.code, str(error)
            else:
                document = {**plan_document(plan), "fingerprint": "of the names too"}
                yield document, [(q.name, q.kind, q.text, q.proposal) for q in plan.questions]


def as_text(found):
    """Without the digits of questions, which are of the names too."""
    return re.sub(":[0-9a-f]{6}(?![0-9a-f])", "", json.dumps(list(found), default=str))


MEANT = {kind.word: kind.word for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_an_operator_of_another_name_with_the_same_facts_is_planned_the_same(kind, monkeypatch):
    expected = as_text(outcomes(kind.names[0]))
    assert "SM-STATE-002" not in expected
    twin = replace(kind, word=WORD, names=(TWIN,))
    monkeypatch.setattr(catalogue, "KINDS", (*KINDS, twin))
    monkeypatch.setitem(MEANT, WORD, kind.word)
    found = as_text(outcomes(TWIN))
    assert TWIN in found or WORD in found
    assert found.replace(TWIN, kind.names[0]).replace(WORD, kind.word) == expected


def test_every_kind_has_states_that_are_compared():
    assert set(STATES) == {kind.word for kind in KINDS}
