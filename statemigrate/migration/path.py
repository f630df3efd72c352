"""The composed transforms from one revision to another."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.errors import TransformError, ValueMismatchError, values_hidden
from statemigrate.formats import Format, Value
from statemigrate.migration.migration import Direction, TimeToLive, Transform


@dataclass(frozen=True)
class Step:
    """One transform: from ``source`` to ``target``, whose values have ``format``.

    ``direction`` names the function in ``script``, ``drops`` what it loses on purpose.
    """

    store: str
    source: str
    target: str
    transform: Transform
    format: Format
    script: str = ""
    time_to_live: TimeToLive = "keep"
    direction: Direction = "upgrade"
    drops: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """The revision of the script that the transform is of."""
        return self.target if self.direction == "upgrade" else self.source

    def run(self, value: Value) -> Value:
        """Transform ``value``. TransformError if the transform raises or returns no dict."""
        try:
            result = self.transform(value)
        except Exception as cause:
            raise self._failure("raised", cause) from cause
        if not isinstance(result, dict):
            raise self._no_dict(result)
        return result

    def check(self, value: Value) -> None:
        """Raise TransformError if this step's format cannot hold ``value``."""
        try:
            self.format.validate(value)
        except ValueMismatchError as cause:
            problem = "returned a value its new format cannot hold"
            raise self._failure(problem, cause) from cause

    def _failure(self, problem: str, cause: Exception) -> TransformError:
        # The format's own errors know what they may show; anyone else's may show the value.
        said = isinstance(cause, ValueMismatchError) or not values_hidden()
        text = f"{type(cause).__name__}: {cause}" if said else type(cause).__name__
        return self._error(problem, None, text)

    def _no_dict(self, result: object) -> TransformError:
        hint = "None; is a `return` missing?" if result is None else type(result).__name__
        return self._error("returned no dict", "a dict of the fields by name", hint)

    def _error(self, problem: str, expected: str | None, found: str) -> TransformError:
        script = self.script or "the script"
        return TransformError(
            f"Store '{self.store}': the transform from revision {self.source} "
            f"to {self.target} {problem}.",
            expected=expected,
            found=found,
            next_action=f"correct the transform in {script}, try it with "
            "`statemigrate dry-run`, and restart the query; the value was not changed",
            store=self.store,
            source=self.source,
            target=self.target,
        )


@dataclass(frozen=True)
class Path:
    """Takes a value of revision ``source`` to revision ``target``; with no steps, the identity.

    The last result is not validated here: whoever writes it validates it against the target's
    format anyway, and doing it twice would double that cost. What only passes on its way to the
    next step is validated, so that no step sees a value its own format could not have held.

    A path holds everything it needs; pickled with cloudpickle it runs where the scripts are not.
    """

    source: str
    target: str
    steps: tuple[Step, ...] = ()

    @property
    def restarts_time(self) -> bool:
        """Whether every script on the way lets a value's time to live start again."""
        return all(step.time_to_live == "restart" for step in self.steps)

    def apply(self, value: Value) -> Value:
        """Return ``value`` as the target revision has it.

        A transform may change the value in place, so hand over one that nobody else holds.
        Raises TransformError with the failing step's revisions, its cause chained; who knows the
        key raises it `at` that key.
        """
        if len(self.steps) == 1:
            return self.steps[0].run(value)
        for step in self.steps[:-1]:
            value = step.run(value)
            step.check(value)
        return self.steps[-1].run(value) if self.steps else value
