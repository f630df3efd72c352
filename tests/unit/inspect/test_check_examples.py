"""`check` tries the example values of a script."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.inspect.script_check import check

CENTS = 'Struct("total BIGINT, tags ARRAY<STRING>")'
AMOUNT = 'Struct("total DECIMAL(18,2), tags ARRAY<STRING>")'
UP = "value['total'] = Decimal(value['total']).scaleb(-2)\n    return value"
DOWN = """
def downgrade(value):
    value['total'] = int(value['total'].scaleb(2))
    return value

"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("m")


def findings(folder: Path, examples: str, *, upgrade: str = UP, downgrade: str = DOWN) -> list[str]:
    more = f"from decimal import Decimal\n\nexamples = {examples}\n{downgrade}"
    script(folder, "a1", old=CENTS, new=AMOUNT, upgrade=upgrade, more=more)
    return [str(finding) for finding in check(folder).findings]


@pytest.mark.parametrize(
    "examples",
    [
        "[]",
        "()",
        "[{'total': 105, 'tags': ['x', None]}, {'total': 0, 'tags': None}]",
        "({'total': 105, 'tags': []},)",
        "[({'total': 105, 'tags': []}, {'total': Decimal('1.05'), 'tags': []})]",
    ],
)
def test_examples_that_migrate_there_and_back_are_no_findings(folder: Path, examples: str) -> None:
    assert findings(folder, examples) == []


def test_an_example_must_be_a_value_of_old(folder: Path) -> None:
    assert findings(folder, "[{'total': 1, 'tags': []}, {'total': '1', 'tags': []}]") == [
        "m/versions/a1.py: example 2 is no value of `old`: field total cannot hold this value "
        "(expected long, an int from -9223372036854775808 to 9223372036854775807; found str '1'); "
        "next: correct the example"
    ]


def test_an_upgrade_that_raises_is_found_for_each_example(folder: Path) -> None:
    assert findings(folder, "[{'total': None, 'tags': None}] * 2") == [
        f"m/versions/a1.py: `upgrade` fails on example {number} (found TypeError: conversion from "
        "NoneType to Decimal is not supported); next: correct `upgrade`, or the example"
        for number in (1, 2)
    ]


def test_an_upgrade_that_returns_nothing_is_found(folder: Path) -> None:
    assert findings(folder, "[{'total': 1, 'tags': []}]", upgrade="value.clear()") == [
        "m/versions/a1.py: `upgrade` fails on example 1 (expected a dict of the fields by name; "
        "found None; is a `return` missing?); next: correct `upgrade`, or the example"
    ]


def test_an_upgrade_must_return_what_new_holds(folder: Path) -> None:
    (line,) = findings(folder, "[{'total': 1, 'tags': []}]", upgrade="return {'total': value}")
    assert line.startswith(
        "m/versions/a1.py: `upgrade` makes of example 1 what `new` cannot hold: field "
    )
    assert line.endswith("; next: correct `upgrade`, or the example")


def test_a_way_back_that_loses_something_shows_the_fields_that_differ(folder: Path) -> None:
    back = DOWN.replace("return value", "return {**value, 'tags': ['y']}").replace("(2)", "(1)")
    assert findings(folder, "[{'total': 105, 'tags': ['x']}]", downgrade=back) == [
        "m/versions/a1.py: `downgrade` does not take example 1 back to what it was "
        '(expected total = 105, tags = ["x"]; found total = 10, tags = ["y"]); '
        "next: correct `downgrade`, or the example"
    ]


def test_a_way_back_that_fails_is_found(folder: Path) -> None:
    back = DOWN.replace(
        "value['total'] =", "raise ValueError(value['total'])\n    value['total'] ="
    )
    assert findings(folder, "[{'total': 105, 'tags': ['x']}]", downgrade=back) == [
        "m/versions/a1.py: `downgrade` fails on example 1 upgraded (found ValueError: 1.05); "
        "next: correct `downgrade`, or the example"
    ]
    back = DOWN.replace("return value", "return {'total': 1.5, 'tags': []}")
    (line,) = findings(folder, "[{'total': 105, 'tags': ['x']}]", downgrade=back)
    assert "`downgrade` makes of example 1 upgraded what `old` cannot hold: field total" in line


def test_without_a_way_back_only_the_way_there_is_tried(folder: Path) -> None:
    assert findings(folder, "[{'total': 105, 'tags': ['x']}]", downgrade="") == []


def test_a_pair_says_what_upgrade_must_return(folder: Path) -> None:
    pair = "({'total': 105, 'tags': []}, {'total': Decimal('105.00'), 'tags': []})"
    assert findings(folder, f"[{pair}]") == [
        "m/versions/a1.py: `upgrade` does not turn example 1 into what is expected of it "
        '(expected total = "105.00"; found total = "1.05"); '
        "next: correct `upgrade`, or the example"
    ]


def test_the_expected_value_must_be_one_of_new(folder: Path) -> None:
    (line,) = findings(folder, "[({'total': 105, 'tags': []}, {'total': Decimal('1.05')})]")
    assert line.startswith(
        "m/versions/a1.py: the expected value of example 1 is no value of `new`: field tags is "
        "missing ("
    )
    assert line.endswith("; next: correct the example")


def test_transforms_may_change_what_they_are_given(folder: Path) -> None:
    again = "{'total': 105, 'tags': ['x']}"
    changing = "value['tags'].append('y')\n    return {'total': Decimal(1), 'tags': None}"
    back = "\ndef downgrade(value):\n    value.clear()\n    return {'total': 105, 'tags': ['x']}\n"
    both = f"[({again}, {{'total': Decimal(1), 'tags': None}})] * 2"
    assert findings(folder, both, upgrade=changing, downgrade=back) == []


@pytest.mark.parametrize(
    ("entries", "upgrade"),
    [
        ("{'a': 1.5, 'b': 2.5}", "return {'m': dict(reversed(value['m'].items()))}"),
        ("{'a': float('nan')}", "return value"),
    ],
)
def test_the_order_of_a_maps_entries_and_a_nan_are_no_difference(
    folder: Path, entries: str, upgrade: str
) -> None:
    map_of = 'Struct("m MAP<STRING, DOUBLE>")'
    back = "def downgrade(value):\n    return value\n"
    more = f"examples = [{{'m': {entries}}}]\n\n{back}"
    script(folder, "a1", old=map_of, new=map_of, upgrade=upgrade, more=more)
    assert check(folder).findings == ()


def test_examples_of_a_baseline_are_values_of_new(folder: Path) -> None:
    def lines(examples: str) -> list[str]:
        script(
            folder,
            "a1",
            old="None",
            more=f"examples = {examples}\n",
            without="\n\ndef upgrade(value):\n    return value",
        )
        return [str(finding) for finding in check(folder).findings]

    assert lines("[{'a': 1}]") == []
    (line,) = lines("[{'b': 1}]")
    assert line.startswith("m/versions/a1.py: example 1 is no value of `new`: ")
    (line,) = lines("[({'a': 1}, {'a': 1})]")
    assert "found example 1 of a baseline is a pair: ({'a': 1}, {'a': 1})" in line


@pytest.mark.parametrize(
    ("examples", "found"),
    [
        ("7", "int: 7"),
        ("{'a': 1}", "dict: {'a': 1}"),
        ("[{}, 7]", "example 2 is int: 7"),
        ("[({}, {}, 7)]", "example 1 is tuple: ({}, {}, 7)"),
        ("[({}, 7)]", "example 1 is tuple: ({}, 7)"),
        ("[[{}, {}]]", "example 1 is list: [{}, {}]"),
    ],
)
def test_examples_of_another_type_are_refused(folder: Path, examples: str, found: str) -> None:
    assert findings(folder, examples) == [
        "m/versions/a1.py: `examples` are no values to try [SM-SCRIPT-011] "
        "(expected a list of dicts in the format "
        "`old`, of pairs (old value, expected new value), or of triples with the key; of a "
        f"baseline, dicts in the format `new`; found {found}); next: correct `examples`, or leave "
        "them out"
    ]


KEYED = "value['total'] = Decimal(value['total']).scaleb(-key['digits'])\n    return value"


@pytest.mark.parametrize(
    ("example", "found"),
    [
        ("({'total': 105, 'tags': []}, {'total': Decimal('1.05'), 'tags': []}, {'digits': 2})", []),
        ("({'total': 105, 'tags': []}, None, {'digits': 1})", []),
        (
            "{'total': 105, 'tags': []}",
            [
                "m/versions/a1.py: example 1 has no key, and `upgrade` takes one (expected a "
                "triple; found a value); next: give the example as (old value, expected new value "
                "or None, key)"
            ],
        ),
    ],
    ids=["compared", "tried", "keyless"],
)
def test_an_upgrade_that_takes_the_key_is_tried_with_one(
    folder: Path, example: str, found: list[str]
) -> None:
    more = f"from decimal import Decimal\n\nexamples = [{example}]\n"
    path = script(folder, "a1", old=CENTS, new=AMOUNT, upgrade=KEYED, more=more)
    path.write_text(path.read_text().replace("def upgrade(value)", "def upgrade(value, key)"))
    assert [str(finding) for finding in check(folder).findings] == found
