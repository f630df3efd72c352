"""The values that a script gives to be tried."""

from __future__ import annotations

from typing import Any

from statemigrate.errors import ScriptError
from statemigrate.migration import ExampleValue
from statemigrate.scripts.loading import Script
from statemigrate.scripts.reading.parts import is_baseline, wrong_part


def examples_in(script: Script) -> tuple[ExampleValue, ...]:
    """The examples of a script. Raises ScriptError for what is none."""
    values: Any = script.get("examples", ())
    if not isinstance(values, list | tuple):
        raise _not_examples(script, f"{type(values).__name__}: {values!r:.200}")
    return tuple(_example(script, number, value) for number, value in enumerate(values, 1))


def _example(script: Script, number: int, value: Any) -> ExampleValue:
    if isinstance(value, dict):
        return ExampleValue(value)
    parts = value if isinstance(value, tuple) else ()
    is_pair = len(parts) == 2 and all(isinstance(each, dict) for each in parts)
    is_keyed = len(parts) == 3 and _is_keyed(*parts)
    if not is_pair and not is_keyed:
        raise _not_examples(script, f"example {number} is {type(value).__name__}: {value!r:.200}")
    if is_baseline(script):
        raise _not_examples(script, f"example {number} of a baseline is a pair: {value!r:.200}")
    return ExampleValue(*parts)


def _is_keyed(value: Any, expected: Any, key: Any) -> bool:
    return isinstance(value, dict) and isinstance(expected, dict | None) and isinstance(key, dict)


def _not_examples(script: Script, found: str) -> ScriptError:
    return wrong_part(
        "SM-SCRIPT-011",
        script,
        "`examples` are no values to try.",
        expected="a list of dicts in the format `old`, of pairs (old value, expected new value), "
        "or of triples with the key; of a baseline, dicts in the format `new`",
        found=found,
        next_action="correct `examples`, or leave them out",
    )
