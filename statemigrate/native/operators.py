"""The stateful operators of a query, and which of them is meant.

A query may have several: a ``dropDuplicates`` before ours, an aggregation after it, a second
``transformWithState``. Spark numbers them from the sink towards the sources, and its state reader
takes operator 0 unless given another. Each operator on pages has chunk files of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from statemigrate.checkpoint.operators import (
    OperatorEntry,
    operator_files,
    operator_names,
    parse_properties,
)
from statemigrate.deployment import VARIABLE_KINDS, Kind, is_family_of
from statemigrate.errors import CheckpointError, StartupError
from statemigrate.files import Files, PathOrFiles, open_files
from statemigrate.native.chunks import ChunkFiles, paged_in
from statemigrate.quoting import argument

if TYPE_CHECKING:
    pass


_KINDS: dict[str, Kind] = {each.spark_name: word for word, each in VARIABLE_KINDS.items()}
PROCESSOR = "transformWithState"
FUNCTION = "applyInPandasWithState"
PAGES = "statemigrate_pages"
"""The state variable that has the pages of a paged processor, and that tells one from others.

Where the operator has a name, that of the variable ends with it, after an underscore."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

T = TypeVar("T")
Which = int | str | None
"""The operator that is meant: Spark's number, or the name that ``paged`` gave its own. The empty
name is that of pages without one; None is whichever could be meant."""


@dataclass(frozen=True)
class Variable:
    """A state variable of ``transformWithState``: its name, its kind, whether values expire."""

    name: str
    kind: Kind
    expires: bool


@dataclass(frozen=True)
class Operator:
    """A stateful operator: Spark's number and name of it, and its state variables by name."""

    id: int
    name: str
    variables: Mapping[str, Variable]

    @property
    def is_processor(self) -> bool:
        """Whether a ``StatefulProcessor`` runs in it."""
        return self.name.startswith(PROCESSOR)

    @property
    def is_paged(self) -> bool:
        """Whether its state is in pages."""
        return self.is_processor and any(map(is_pages, self.variables))

    @property
    def paged_name(self) -> str | None:
        """The name that ``paged`` gave it, empty if none; None without pages."""
        return pages_name(self.variables) if self.is_processor else None

    @property
    def is_function(self) -> bool:
        """Whether a function of ``applyInPandasWithState`` runs in it."""
        return self.name == FUNCTION

    def is_meant(self, which: Which) -> bool:
        """Whether it could be the one that is meant."""
        return which is None or which == (self.paged_name if isinstance(which, str) else self.id)

    def __str__(self) -> str:
        if self.paged_name:
            return f"operator {self.id} ({self.name} with pages, named {self.paged_name})"
        variables = f" with {', '.join(sorted(self.variables))}" if self.variables else ""
        return f"operator {self.id} ({self.name}{variables})"


def is_pages(variable: str) -> bool:
    """Whether a state variable has pages."""
    return variable == PAGES or is_name(_after(variable))


def name_in(variables: Iterable[str]) -> str:
    """The name of a paged operator that has these state variables, empty where it has none."""
    return next(filter(is_name, map(_after, variables)), "")


def pages_name(variables: Iterable[str]) -> str | None:
    """The same of any operator: None where no variable has pages."""
    named = tuple(variables)
    return name_in(named) if any(map(is_pages, named)) else None


def _after(variable: str) -> str:
    start = f"{PAGES}_"
    return variable.removeprefix(start) if variable.startswith(start) else ""


def is_name(text: str) -> bool:
    """Whether an operator can be called so: its files are too."""
    return _NAME.fullmatch(text) is not None


def operators_in(entries: Iterable[OperatorEntry]) -> tuple[Operator, ...]:
    """The operators that these metadata are of, by number.

    Raises `CheckpointError` for properties that are not understood.
    """
    ordered = sorted(entries, key=lambda entry: entry.number)
    return tuple(Operator(each.number, each.name, _variables(each)) for each in ordered)


def only(
    path: str,
    operators: Sequence[Operator],
    fitting: Sequence[Operator],
    chosen: Which,
    kind: str = PROCESSOR,
) -> Operator:
    """The one of ``fitting`` that is meant: the chosen one, or the only one.

    Raises `CheckpointError`, which lists the ``operators`` that there are.
    """
    meant = [each for each in fitting if each.is_meant(chosen)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise several(path, meant)
    raise CheckpointError(
        "SM-STATE-025",
        f"the state in {path} is not that of a {kind}"
        if chosen is None
        else f"operator {chosen!r} of {path} is no {kind} with pages of that name"
        if isinstance(chosen, str)
        else f"operator {chosen} of {path} is no {kind}",
        expected=f"a stateful operator {kind}",
        found="; ".join(map(str, operators)) or "no stateful operator",
        next_action="check the path"
        + ("" if chosen is None else ", and the operator's number or name")
        + "; a function of applyInPandasWithState needs store= of migrated, a StatefulProcessor "
        "none",
        path=path,
    )


def several(path: str, meant: Sequence[Operator]) -> CheckpointError:
    """More than one operator could be meant."""
    numbers = " or ".join(each.paged_name or str(each.id) for each in meant)
    return CheckpointError(
        "SM-STATE-026",
        f"the query of {path} has {len(meant)} operators whose state could be meant",
        expected="one, or the number or name of one of them",
        found="; ".join(map(str, meant)),
        next_action=f"say which: --operator {numbers} on the command line, operator= in Python",
        path=path,
        operators=[each.id for each in meant],
    )


def check_operator(
    path: str, own_operator: Operator, operators: Sequence[Operator], declared: Sequence[str]
) -> None:
    """Raise `StartupError` if the operator that was chosen has nothing of what a code declares.

    And another one has: then the number is wrong. Where none has any, the variables may be new.
    """
    if not own_operator.variables or _of_these(declared, own_operator):
        return
    meant = [each for each in operators if _of_these(declared, each)]
    if meant:
        numbers = " or ".join(f"operator={each.id}" for each in meant)
        raise StartupError(
            "SM-START-018",
            f"operator={own_operator.id} is not the one that keeps this code's state in {path}",
            expected=f"an operator with {', '.join(_of_these(declared, meant[0]))}, as {numbers}",
            found=str(own_operator),
            next_action=f"pass {numbers}, or leave operator= out where only one could be meant",
            path=path,
            operator=own_operator.id,
            operators=[each.id for each in meant],
        )


def _of_these(stores: Sequence[str], operator: Operator) -> list[str]:
    return [s for s in stores if any(is_family_of(s, name) for name in operator.variables)]


def check_names(
    path: str, own_operator: Operator, operators: Sequence[Operator], stores: Sequence[str]
) -> None:
    """Raise `StartupError` if another operator has variables of one of these stores.

    What deployments note of a store goes by its name, and would be the other's as well.
    """
    for other in operators:
        both = _of_these(stores, other)
        if both and other.id != own_operator.id:
            raise StartupError(
                "SM-START-019",
                f"two operators of the query of {path} have a store {both[0]}",
                expected="stores of different names, where their values are to be migrated",
                found=f"{own_operator}; {other}",
                next_action="give the variable of one of them another name in the code, stop the "
                f"query and `statemigrate rewrite {argument(path)} NEW --code MODULE:FUNCTION`, "
                "which asks what the new name goes on with",
                store=both[0],
            )


def _variables(entry: OperatorEntry) -> dict[str, Variable]:
    if not entry.name.startswith(PROCESSOR):
        return {}
    properties = parse_properties(entry, f"state/{entry.number}") or {}
    return {
        each["stateName"]: Variable(
            each["stateName"], _KINDS[each["stateVariableType"]], each["ttlEnabled"]
        )
        for each in properties.get("stateVariables", [])
        if each["stateVariableType"] in _KINDS
    }


def chunk_files(checkpoint: PathOrFiles, operator: Which = None) -> ChunkFiles:
    """The chunk files of the operator that is meant, found by the checkpoint's files alone.

    Raises `CheckpointError` where several could be meant, or none is called so.
    """
    return ChunkFiles(checkpoint, operator_name(open_files(checkpoint), operator))


def operator_name(files: Files, operator: Which) -> str | None:
    """The name of the operator on pages that is meant, empty where it has none.

    None is for one that is not on pages, which `with_backfill` is for. Raises as `chunk_files`.
    """
    paged = paged_in(files)
    if not isinstance(operator, str) and not paged:
        return None
    others = sorted(operators_without_pages(files)) if ChunkFiles(files).is_made() else []
    if operator is None and len(paged) == 1 and not others:
        return paged[0]
    names = paged_names(files)
    if isinstance(operator, int):
        return names.get(operator)
    if operator is not None and operator in names.values():
        return operator
    if operator is not None and not names and (is_name(operator) or not operator):
        # Before the first batch.
        return operator
    if operator is None and len(names) <= 1 and not others:
        return next(iter(names.values()), None)
    raise _unclear(files, names, others, operator)


def paged_names(files: Files) -> dict[int, str]:
    """By Spark's number the name of each operator on pages, empty where `paged` gave it none."""
    newest: dict[int, frozenset[str]] = {}
    for each in operator_files(files):
        newest[int(each.path.split("/")[1])] = each.variables or frozenset()
    names = {number: pages_name(variables) for number, variables in newest.items()}
    return {number: name for number, name in names.items() if name is not None}


def operators_without_pages(files: Files) -> set[int]:
    """The numbers of operators that run a user's code, and whose state is not on pages."""
    names = operator_names(files)
    own = {number for number, name in names.items() if name.startswith((PROCESSOR, FUNCTION))}
    return own - paged_names(files).keys()


def _unclear(
    files: Files, names: dict[int, str], others: list[int], operator: Which
) -> CheckpointError:
    every = {**names, **dict.fromkeys(others, "")} if operator is None else names
    choices = [name or str(number) for number, name in sorted(every.items())]
    kind = "operators with a backfill" if others else "operators on pages"
    return CheckpointError(
        "SM-PAGES-035",
        f"the query of {files.location} has {len(every)} {kind} that could be meant"
        if operator is None
        else f"the query of {files.location} has no operator on pages named {operator}",
        expected=f"one of {', '.join(choices)}",
        found="none was named" if operator is None else operator,
        next_action=f"say which: --operator {' or '.join(choices)} on the command line, operator= "
        "in Python",
        path=files.location,
        operators=sorted(every),
    )
