"""The code that a preview runs: which of a query's sources each of its streams stands for."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.commands.new_code import NewCode, probed
from statemigrate.deployment import (
    SETTINGS,
    Copy,
    DeploymentSettings,
    named_object,
    running_on_copy,
)
from statemigrate.errors import CodeError, UnsupportedError
from statemigrate.preview import WITHOUT_NAMES, History, QueryFunction, UnoptimizedPlan
from statemigrate.rewrite import (
    call_on_empty_streams,
    input_names,
    input_schemas,
    session_parameters,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CodeReader:
    """Finds out which sources of a query a function reads, by a call on empty streams."""

    wanted: NewCode
    history: History
    session: SparkSession
    checkpoint: str

    def read(self, reference: str, old: QueryFunction | None) -> QueryFunction:
        """The code, and which source each of its parameters stands for.

        Raises `CodeError` where that is unclear, and `UnsupportedError` for code that was made for
        the query's checkpoint when its module was imported.
        """
        function = named_object(reference)
        inputs = own_inputs(self.wanted, reference)
        schemas = input_schemas(function, inputs, reference)
        _check_not_deployed(reference, function)
        mode = self._mode(reference, inputs)
        names, named = self._streams(reference, function, inputs)
        lines = self.history.sources
        repeated: dict[str, tuple[str, ...]] = {}
        if old is not None and set(schemas) <= set(old.inputs):
            by_name = {name: old.inputs[name] for name in schemas}
        elif len(names) == len(lines) and "" not in names:
            by_name = {name: lines[names.index(name)] for name in names}
            for name, line in zip(names, lines, strict=True):
                repeated[by_name[name]] = (*repeated.get(by_name[name], ()), line)
        else:
            by_name = self._by_name(reference, tuple(dict.fromkeys(names)))
        return QueryFunction(
            reference,
            function,
            by_name,
            schemas,
            mode,
            session_parameters(function),
            repeated,
            named=named,
        )

    def check_start(self, code: QueryFunction, fork: Path) -> None:
        """Raise `StartupError` for code that does not start on the state in a ``fork``.

        Nothing is run, nor is anything written there.
        """
        engine, inputs = self.history.engine, own_inputs(self.wanted, code.reference)
        copy = Copy(fork.as_uri(), code.deployed)
        with (
            tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder,
            running_on_copy(copy),
        ):
            made, _ = call_on_empty_streams(
                code.function,
                Path(folder),
                self.session,
                inputs=inputs,
                conf=WITHOUT_NAMES,
                reference=code.reference,
            )
            engine.runnable(made, code.reference, code.mode).check(fork)

    def _mode(self, reference: str, inputs: Mapping[str, Any]) -> str:
        """The output mode of the code: the given one, else the first that Spark takes.

        Empty where the engine takes any.
        """
        if not self.history.engine.compares_meaning:
            return ""
        if self.wanted.mode is not None:
            return self.wanted.mode
        alone = NewCode(reference, inputs)
        conf = {**self.history.before.entry.conf, **WITHOUT_NAMES}
        found = probed(alone, conf, self.session, self.checkpoint)
        assert found is not None, "code was given"  # noqa: S101
        return found.mode or "append"

    def _streams(
        self, reference: str, function: Callable[..., Any], inputs: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], frozenset[str]]:
        """The parameters in the order in which Spark reads them, repeated where it does so.

        Also the checkpoints that the code names.
        """
        with tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder:
            copy = Copy(folder)
            with running_on_copy(copy):
                made, _ = call_on_empty_streams(
                    function,
                    Path(folder),
                    self.session,
                    inputs=inputs,
                    conf=WITHOUT_NAMES,
                    reference=reference,
                )
                stream = self.history.engine.stream_of(made, reference)
            reads = UnoptimizedPlan.of(stream).reads
            place = f"{(Path(folder) / 'in').as_uri()}/"
        names = (each.removeprefix(place) if each.startswith(place) else "" for each in reads)
        return tuple(names), frozenset(copy.named)

    def _by_name(self, reference: str, names: Sequence[str]) -> dict[str, str]:
        """By parameter the first line of the offset log that is its stream's."""
        first: dict[str | None, str] = {}
        for line, folder in self.history.folders.items():
            first.setdefault(folder, line)
        if "" in names or None in first or len(names) != len(first):
            raise self._unknown(reference, ", ".join(names))
        return dict(zip(names, first.values(), strict=True))

    def _unknown(self, reference: str, found: str) -> CodeError:
        return CodeError(
            "SM-PREVIEW-012",
            f"the sources that {reference} reads cannot be determined",
            expected=f"an input stream for each of the {len(self.history.sources)} sources of "
            "the query, or the names that the old code has for them",
            found=found,
            next_action="name the old code with --old-code, and let both call their streams "
            "the same",
            reference=reference,
        )


def own_inputs(wanted: NewCode, reference: str) -> dict[str, Any]:
    """The inputs that are given for some code: one of both may read a stream less."""
    names = input_names(named_object(reference))
    return {name: schema for name, schema in wanted.inputs.items() if name in names}


def _check_not_deployed(reference: str, function: Any) -> None:
    """Raise `UnsupportedError` for code whose processor is made, with a checkpoint, on import."""
    # A class is marked on import too, but its instances are made when the function is called.
    made = [each for each in _named_in(inspect.unwrap(function)) if not isinstance(each, type)]
    marks = (getattr(each, SETTINGS, None) for each in made)
    found = {each.checkpoint for each in marks if isinstance(each, DeploymentSettings)} - {None}
    if found:
        raise UnsupportedError(
            "SM-PREVIEW-013",
            f"{reference} has a processor or a function that was made for a checkpoint on import",
            expected="one that is made when the function is called: then it works on a copy",
            found=", ".join(sorted(map(str, found))),
            next_action="make the processor, or call migrated, within the function",
            reference=reference,
        )


def _named_in(function: Any) -> Iterator[Any]:
    """What a function may reach by name: globals of its module, and of modules among them."""
    found = list(function.__globals__.values())
    code = [each.__code__ for each in (function, *found) if inspect.isfunction(each)]
    names = {name for each in code for name in each.co_names}
    yield from found
    for module in filter(inspect.ismodule, found):
        yield from (vars(module).get(name) for name in names)
