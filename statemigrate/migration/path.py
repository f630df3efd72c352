"""The composed transforms from one revision to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statemigrate.formats import Value
from statemigrate.migration.step import Step


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

    @property
    def only_by_rewriting(self) -> Step | None:
        """The first script that a running query cannot do; see `Step.only_by_rewriting`."""
        return next((step for step in self.steps if step.only_by_rewriting), None)

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

    def apply_many(self, values: Sequence[Value]) -> Sequence[Value]:
        """`apply` for many values; where it raises, `apply` says of which of them.

        What is no dict may be among what is returned: the target's format refuses it.
        """
        if len(self.steps) == 1:
            return self.steps[0].run_many(values)
        return [self.apply(value) for value in values]
