"""What a query's code keeps and what it means: seen by a probe, written down in a lock file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from statemigrate.checkpoint.operators import OperatorShape, kind_of
from statemigrate.errors import CodeError
from statemigrate.files import (
    Maybe,
    Table,
    check_shape,
    document_checksum,
    parse_json,
)
from statemigrate.rewrite import (
    EFFECTS,
    EMBEDDED,
    AggregateFunction,
    KeyMeaning,
    OperatorFact,
    PlanMeaning,
    StateSchema,
    operator_name,
    probed_schemas,
    settings_in,
    window_from_json,
)

FORMAT = 3
"""The format of a meaning as it is written."""
_FORMATS = (1, 2, FORMAT)
WITH_SETTINGS = 3
"""The first format whose texts have settings of the session."""
_ABOUT = (
    "What the state of this code means. `statemigrate check --write-lock` writes this file: review "
    "and commit it, and do not edit it by hand"
)


@dataclass(frozen=True)
class OperatorMeaning:
    """A stateful operator: what it keeps, and what that is computed from.

    ``kind`` is Spark's name of the operator. ``state`` has what it keeps by the user's names, and
    is empty where that was not looked at. ``keys``, ``functions`` and ``facts`` are as the probe
    saw them. ``format`` is that of the document that it is from: format 1, of statemigrate 0.1.0,
    has no conditions that a value is not null, no rows of tables that code makes, and no nulls of
    ``NOT IN``. Before format 3 no text has settings of the session. ``targets`` are the families
    that the code writes to, by the stores that its scripts migrate.
    """

    name: str
    number: int
    kind: str
    state: Mapping[str, StateSchema]
    keys: tuple[KeyMeaning, ...] = ()
    functions: tuple[AggregateFunction, ...] = ()
    facts: tuple[OperatorFact, ...] = ()
    format: int = FORMAT
    targets: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> Iterator[str]:
        """All that says what its state is computed from."""
        yield from (each.expression for each in self.keys)
        for each in self.functions:
            yield from (each.meaning, each.uncast, each.shown)
        yield from (each.text for each in self.facts)


@dataclass(frozen=True)
class CodeMeaning:
    """A query's code by its ``reference``: its sources in their order, and its operators.

    ``sources`` are the names of the function's parameters in the order in which Spark counts the
    sources, empty for one that no parameter is known of; ``schemas`` are those of the streams in
    the order in which the plan reads them. ``spark`` is the release that the code ran on when it
    was looked at. ``unset`` are the settings that nothing had set there, unless it was the query
    itself that started: what this has where it runs is not known.
    """

    reference: str
    spark: str
    sources: tuple[str, ...]
    operators: tuple[OperatorMeaning, ...]
    schemas: tuple[str, ...] = ()
    unset: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether it says all that is compared; one that an earlier release wrote may not."""
        return not self.unset and all(each.format == FORMAT for each in self.operators)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the state depends on, without those that have several values."""
        known = [each for each in self.operators if each.format >= WITH_SETTINGS]
        found: dict[str, set[str]] = defaultdict(set)
        for name, value in chain.from_iterable(
            settings_in(text) for each in known for text in each.texts
        ):
            # A checkpoint has the texts, and no other setting of a session is up to it.
            if name in EFFECTS:
                found[name].add(value)
        return {name: values.pop() for name, values in found.items() if len(values) == 1}

    @property
    def functions(self) -> dict[int, tuple[AggregateFunction, ...]]:
        """The aggregate functions of operators by their numbers, in whichever session."""
        return {
            each.number: tuple(function.in_any_session() for function in each.functions)
            for each in self.operators
            if each.functions
        }

    @property
    def keys(self) -> dict[int, tuple[KeyMeaning, ...]]:
        """The key columns of operators by their numbers, in whichever session."""
        return {
            each.number: tuple(key.in_any_session() for key in each.keys)
            for each in self.operators
            if each.keys
        }


def code_meaning(
    reference: str,
    plan: PlanMeaning,
    sources: Sequence[str] = (),
    shapes: Sequence[OperatorShape] = (),
) -> CodeMeaning:
    """The meaning of the code that ``reference`` names, from what its ``plan`` means.

    ``shapes`` are those of its operators where a probe has run it; else the plan names them.
    """
    import pyspark

    known = {each.number: each for each in shapes}
    numbers = [each.number for each in shapes] or sorted(plan.kinds)
    operators = []
    for number in numbers:
        kind = known[number].name if shapes else plan.kinds[number]
        name = operator_name(known[number]) if shapes else _name(kind, number)
        declared = plan.states.get(number, {})
        state = probed_schemas(known[number], declared) if shapes else declared
        made = OperatorMeaning(
            name,
            number,
            kind,
            state,
            plan.keys.get(number, ()),
            plan.functions.get(number, ()),
            plan.facts.get(number, ()),
        )
        operators.append(made)
    release = ".".join(pyspark.__version__.split(".")[:2])
    return CodeMeaning(
        reference, release, tuple(sources), tuple(operators), plan.schemas, plan.unset
    )


PROCESSOR = "processor"
"""The name of the operator of the embedded engine, which is one."""


def _name(kind: str, number: int) -> str:
    return PROCESSOR if number == EMBEDDED else f"{kind_of(kind).word}-{number}"


# The lock: a text file beside the code, one fact a line.


_WINDOW = Maybe({"kind": str})
_FUNCTION = {
    "text": str,
    "fields": [list],
    "meaning": str,
    **dict.fromkeys(("uncast", "function", "result", "shown"), Maybe(str, missing=True)),
    "argument": Maybe(object, missing=True),
    "empty": Maybe(list, missing=True),
    "is_opaque": Maybe(bool, missing=True),
}
MEANING_SHAPE = {
    "format": int,
    "code": str,
    "spark": str,
    "sources": [str],
    "schemas": [str],
    "unset": Maybe([str], missing=True),
    "operators": Table(
        {
            "number": range(EMBEDDED, 2**31),
            "kind": str,
            "state": Table(
                {
                    "key": Maybe(str),
                    "value": str,
                    "user_key": Maybe(str),
                    "is_list": bool,
                    "expires": bool,
                    "lives": Maybe(int),
                }
            ),
            "targets": Maybe(Table(str), missing=True),
            "keys": [{"name": str, "expression": str, "window": _WINDOW}],
            "functions": [_FUNCTION],
            "facts": [{"kind": str, "side": str, "text": str}],
        }
    ),
}
"""The shape of `meaning_document`, for `check_shape`."""
_SHAPE = {**MEANING_SHAPE, "checksum": str}


def lock_text(meaning: CodeMeaning) -> str:
    """The text of the lock file; the same for the same code."""
    document = {"about": _ABOUT, **meaning_document(meaning)}
    return json.dumps({**document, "checksum": document_checksum(document)}, indent=2) + "\n"


def meaning_document(meaning: CodeMeaning) -> dict[str, Any]:
    """A meaning as JSON holds it; `meaning_from_document` reads it."""
    return {
        "format": FORMAT,
        "code": meaning.reference,
        "spark": meaning.spark,
        "sources": list(meaning.sources),
        "schemas": list(meaning.schemas),
        **({"unset": sorted(meaning.unset)} if meaning.unset else {}),
        "operators": {each.name: _operator(each) for each in meaning.operators},
    }


def read_lock(path: str | Path) -> CodeMeaning:
    """The meaning that a lock file has.

    Raises `CodeError` for a file that is none, was edited by hand, or is of a newer release.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, "SM-LOCK-001", f"{type(error).__name__}: {error}") from error
    try:
        document = parse_json(text)
        check_shape(document, _SHAPE)
    except ValueError as error:
        raise _unreadable(path, "SM-LOCK-001", str(error)) from error
    given = document.pop("checksum")
    if document["format"] not in _FORMATS or given != document_checksum(document):
        raise _unreadable(path, "SM-LOCK-002", "another text than was written")
    try:
        return meaning_from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, "SM-LOCK-001", f"{type(error).__name__}: {error}") from error


def _operator(operator: OperatorMeaning) -> dict[str, Any]:
    return {
        "number": operator.number,
        "kind": operator.kind,
        "state": {name: each.to_json() for name, each in operator.state.items()},
        **({"targets": dict(sorted(operator.targets.items()))} if operator.targets else {}),
        "keys": [
            {
                "name": each.name,
                "expression": each.expression,
                "window": None if each.window is None else each.window.to_json(),
            }
            for each in operator.keys
        ],
        "functions": [_function_document(each) for each in operator.functions],
        "facts": [asdict(each) for each in operator.facts],
    }


def meaning_from_document(document: Mapping[str, Any]) -> CodeMeaning:
    """The meaning in a document of `meaning_document`.

    Raises `KeyError`, `TypeError` and `ValueError` for another one.
    """
    if document["format"] not in _FORMATS:
        raise ValueError(f"format {document['format']}")
    operators = tuple(
        OperatorMeaning(
            name,
            each["number"],
            each["kind"],
            {state: StateSchema.from_json(found) for state, found in each["state"].items()},
            tuple(
                KeyMeaning(
                    key["name"],
                    key["expression"],
                    None if key["window"] is None else window_from_json(key["window"]),
                )
                for key in each["keys"]
            ),
            tuple(_function(function) for function in each["functions"]),
            tuple(OperatorFact(**fact) for fact in each["facts"]),
            document["format"],
            each.get("targets") or {},
        )
        for name, each in document["operators"].items()
    )
    return CodeMeaning(
        document["code"],
        document["spark"],
        tuple(document["sources"]),
        operators,
        tuple(document["schemas"]),
        frozenset(document.get("unset") or ()),
    )


def _function_document(function: AggregateFunction) -> dict[str, Any]:
    """A function as JSON holds it: ``uncast`` only where it differs from ``meaning``."""
    document = asdict(function)
    if not function.shown:
        del document["shown"]
    if function.uncast == function.meaning:
        del document["uncast"]
    return document


def _function(document: Mapping[str, Any]) -> AggregateFunction:
    document = {name: each for name, each in document.items() if each is not None}
    fields = tuple((str(name), spark) for name, spark in document["fields"])
    empty = document.get("empty")
    return AggregateFunction(
        **{
            "uncast": document["meaning"],
            **document,
            "fields": fields,
            "empty": None if empty is None else tuple(empty),
        }
    )


def _unreadable(path: str | Path, code: str, found: str) -> CodeError:
    return CodeError(
        code,
        f"{path} is not a lock file as `statemigrate check --write-lock` wrote it",
        expected="the whole file, unchanged",
        found=found,
        next_action="restore the file from version control; or write it again from the code whose "
        "state the checkpoint has, with `statemigrate check --code MODULE:FUNCTION "
        "--write-lock FILE`",
        reference=str(path),
    )
