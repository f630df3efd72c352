"""What a running demonstration yields, for someone to draw."""

from __future__ import annotations

from dataclasses import dataclass

from statemigrate.demo.stage.batch import Batch
from statemigrate.demo.stage.crash import Crash
from statemigrate.demo.verdict.figures import Figures
from statemigrate.demo.verdict.rewritten import RewriteFigures, RewritingFigures
from statemigrate.errors import StatemigrateError


@dataclass(frozen=True)
class ActBegun:
    """A part of the story starts: its title, and what happens in it and why it matters."""

    title: str
    explanation: str


@dataclass(frozen=True)
class BatchDone:
    """A batch of one of the deployments is done; ``migrating`` after the first one."""

    batch: Batch
    migrating: bool


@dataclass(frozen=True)
class Killed:
    """The first deployment was killed."""

    crash: Crash


@dataclass(frozen=True)
class PlainBatchDone:
    """A batch of a query that has nothing to do with migrating is done."""

    batch: Batch


@dataclass(frozen=True)
class Refused:
    """A rewrite was refused, with an error that says why and what to do."""

    error: StatemigrateError


@dataclass(frozen=True)
class Rewritten:
    """A new checkpoint was made."""

    figures: RewritingFigures


@dataclass(frozen=True)
class Finished:
    """The end, with all figures."""

    figures: Figures | RewriteFigures


Step = ActBegun | BatchDone | PlainBatchDone | Killed | Refused | Rewritten | Finished
