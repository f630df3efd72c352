"""A query's history at one place: lives that end well or not, each compared with the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from support.crash.journal import Operation, operations, stopped_at
from support.crash.library import Point
from support.crash.nursery import Life, Nursery
from support.crash.power import Disk, Rule
from support.histories.commands import Batch, from_json, to_json
from support.histories.lives import Deployment
from support.histories.model import Model

Verb = Literal["run", "backfill", "run_believing", "run_proving", "repair"]
_LIVES = "support.histories.lives"
_FOLDERS = (
    "checkpoint/commits", "checkpoint/offsets", "checkpoint/statemigrate", "working", "input",
    "output",
)  # fmt: skip


class WrongError(AssertionError):
    """The state is not what the model says; the text has what is wrong."""


class RefusedError(WrongError):
    """The state could not be read: an error of the package said so."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Power:
    """What is lost with the power: a rule of `support.crash.power`, and its seed."""

    rule: Rule = "strict"
    seed: int = 0


class Story:
    """A place, the model of what is committed there, and the input so far.

    ``version`` is the last committed batch, -1 before the first. ``values`` counts what was
    compared.
    """

    def __init__(self, root: Path, nurseries: Sequence[Nursery]) -> None:
        self.root = root
        self.nurseries = nurseries
        self.model = Model()
        self.version = -1
        self.values = 0
        self.turn = 0
        self._before: tuple[Model, int] = (Model(), -1)
        for name in _FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)

    def copied(self, root: Path) -> Story:
        """The same history so far, at another place."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root)
        other = Story(root, self.nurseries)
        other.model, other.version, other.turn = self.model.copied(), self.version, self.turn
        other._before = self._before
        return other

    def feed(self, *batches: Batch) -> None:
        """More input."""
        folder = self.root / "input"
        for batch in batches:
            (folder / str(len(list(folder.iterdir())))).write_text(json.dumps(to_json(batch)))

    def trace(
        self, verb: Verb, deployment: Deployment, scratch: Path, *, reads: bool = False
    ) -> list[Operation]:
        """The file operations that a life makes; tried on a copy."""
        other = self.copied(scratch)
        life = other._live(verb, deployment, other._point(reads=reads))
        if life.ended != "returned":
            raise WrongError(f"{verb} {life.ended}: {life.error}")
        found = list(operations(scratch / "journal"))
        assert len(found) == life.counted
        return found

    def goes_on(self, verb: Verb, deployment: Deployment) -> None:
        """A life without trouble; state and output are right, also without the working copy."""
        life = self.tries(verb, deployment)
        if life.ended != "returned":
            raise WrongError(f"{verb} {life.ended}: {life.error}")

    def tries(self, verb: Verb, deployment: Deployment) -> Life:
        """A life that may end with a named error; where it does not, all is right as after it."""
        life = self._live(verb, deployment, None)
        self._check_end(life)
        if life.ended == "returned":
            self._compare_all(verb, deployment)
        return life

    def _compare_all(self, verb: Verb, deployment: Deployment) -> None:
        before = self.version
        self._before = (self.model.copied(), before)
        answers = self._settle(verb, deployment, working=True)
        self._settle("run", deployment, working=False)
        for batch in range(before + 1, self.version + 1):
            self._compare_output(batch, answers[batch])

    def repaired(self, deployment: Deployment) -> Life:
        """A repair, which may find that nothing makes the state whole; it leaves no bare error."""
        life = self._live("repair", deployment, None)
        self._check_end(life)
        return life

    def ends(
        self, verb: Verb, deployment: Deployment, point: Point, power: Power | None = None
    ) -> Life:
        """A life that ends at a point; what is durable then is one of the versions allowed."""
        disk = Disk([Path(each) for each in point.folders]) if point.form == "lost" else None
        life = self._live(verb, deployment, point)
        assert point.journal is not None
        if disk is not None:
            disk.replay(operations(Path(point.journal)))
            power = power or Power()
            disk.lay_out(power.rule, power.seed)
        try:
            self._check_end(life)
            self._settle(verb, deployment, working=False)
        except WrongError as wrong:
            raise WrongError(f"{stopped_at(Path(point.journal))}: {wrong}") from wrong
        return life

    def rewind(self) -> None:
        """The model goes back to before the last life, as Spark's log was made to."""
        self.model, self.version = self._before[0].copied(), self._before[1]

    def point(self, number: int, form: Any, *, error: int = 0, reads: bool = False) -> Point:
        """The ``number``-th operation of a life here."""
        return replace(self._point(reads=reads), number=number, form=form, error=error)

    def _point(self, *, reads: bool) -> Point:
        journal = self.root / "journal"
        journal.unlink(missing_ok=True)
        folders = (str(self.root / "checkpoint" / "statemigrate"), str(self.root / "working"))
        return Point(folders, reads=reads, journal=str(journal))

    def _live(self, verb: Verb, deployment: Deployment, point: Point | None) -> Life:
        # Each life in a process with another hash seed.
        self.turn += 1
        nursery = self.nurseries[self.turn % len(self.nurseries)]
        return nursery.run(f"{_LIVES}:{verb}", str(self.root), deployment.to_json(), point=point)

    @staticmethod
    def _check_end(life: Life) -> None:
        if life.ended in ("hung", "died"):
            raise WrongError(f"the process {life.ended}: {life.error}")
        if life.ended == "raised" and not life.kind.startswith("package:"):
            raise WrongError(f"a bare error: {life.error}")

    def _settle(self, verb: Verb, deployment: Deployment, *, working: bool) -> dict[int, Any]:
        """Compare the last committed version with the model, and take it for what is known."""
        committed = self._committed()
        answers = {}
        for batch in range(self.version + 1, committed + 1):
            answers[batch] = self._expect(batch, deployment)
        if verb == "backfill":
            self.model.may_migrate(deployment.stores, deployment.revision)
        self.version = committed
        if committed >= 0:
            self._compare(working=working)
        return answers

    def _expect(self, batch: int, deployment: Deployment) -> Any:
        rows = from_json(json.loads((self.root / "input" / str(batch)).read_text()))
        answers = self.model.batch(
            rows,
            deployment.revision,
            deployment.stores,
            write_on_read=deployment.write_on_read,
            tables=deployment.tables,
        )
        if deployment.backfill:
            self.model.may_migrate(deployment.stores, deployment.revision)
        return answers

    def _compare(self, *, working: bool) -> None:
        looked = self.root / "looked"
        shutil.rmtree(looked, ignore_errors=True)
        if working:
            # Looking would take the proof from the working copy itself.
            shutil.copytree(self.root / "working", looked)
        self.turn += 1
        nursery = self.nurseries[self.turn % len(self.nurseries)]
        life = nursery.run(f"{_LIVES}:look", str(self.root), str(looked))
        through = "the working copy" if working else "durable files alone"
        if life.ended != "returned":
            text = f"version {self.version} from {through} {life.ended}: {life.error}"
            named = life.kind.startswith("package:")
            raise RefusedError(text, life.kind) if named else WrongError(text)
        entries = [tuple(each) for each in life.value["entries"]]
        self.values += len(entries)
        wrong = self.model.found(entries)
        if wrong:
            listed = "\n  ".join(wrong[:5])
            raise WrongError(
                f"{len(wrong)} of {len(entries)} keys of version {self.version}, from {through}:"
                f"\n  {listed}"
            )

    def _compare_output(self, batch: int, answers: Any) -> None:
        found = json.loads((self.root / "output" / str(batch)).read_text())
        wrong = [
            (key, read)
            for key, read in found
            if len(read) != len(answers[key])
            or not all(text in allowed for text, allowed in zip(read, answers[key], strict=True))
        ]
        if wrong or sorted(key for key, _ in found) != sorted(answers):
            raise WrongError(f"output of batch {batch}: {wrong[:3]}")

    def _committed(self) -> int:
        commits = self.root / "checkpoint" / "commits"
        return max((int(each.name) for each in commits.iterdir()), default=-1)
