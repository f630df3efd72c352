"""Commands in every order on a simulated query, against a model that is a dictionary of counts.

A history is a list of commands. After each the query's answers and its committed values are those
of the model, unless the user has done what no command can hinder: started plain code on named
sources, or on a query that was never adopted, without asking. Then values are forgotten, and every
later start of marked code has to be refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Literal
from unittest.mock import patch

from statemigrate import rollback
from statemigrate.errors import StatemigrateError
from statemigrate.event_log.events import CODE_VERSION
from statemigrate.migration import Lineage
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.backfill_planning import BackfillPlan
from statemigrate.native.backfill_progress import BackfillStatus
from statemigrate.native.listing import check_listed
from statemigrate.scripts import ScriptFolder
from statemigrate.state.open_spark import Variables
from support.simulated_spark import (
    STORE,
    Database,
    Query,
    Reader,
    RefusedBySparkError,
    UserCodeError,
)

MIDDLE, NEWEST = "aaaa11112222", "bbbb33334444"
REVISIONS = ("base", MIDDLE, NEWEST)
KEYS = 5
_SCRIPTS = {
    MIDDLE: ("None", '"n BIGINT"', '"n BIGINT, unit STRING"',
             '{"n": value["n"], "unit": "x"}', '{"n": value["n"]}'),
    NEWEST: (repr(MIDDLE), '"n BIGINT, unit STRING"', '"text STRING"',
             '{"text": "n" + str(value["n"])}', '{"n": int(value["text"][1:]), "unit": "x"}'),
}  # fmt: skip
Verb = Literal["plain", "migrated", "adopt", "undo", "plan", "rollback"]


@dataclass(frozen=True)
class Command:
    """What somebody types or deploys; what it does not need of the rest it passes over."""

    verb: Verb
    revision: str = "base"
    batches: tuple[tuple[str, ...], ...] = ()
    control: bool = False
    kill: bool = False
    fails: bool = False
    apply: bool = True
    undo: bool = False


@dataclass(frozen=True)
class Ways:
    """A history; ``one_way`` is a revision whose script has no ``downgrade``."""

    named: bool
    commands: tuple[Command, ...]
    one_way: str | None = None


def ways(seed: int, length: int = 10) -> Ways:
    """The history of a seed."""
    random = Random(f"ways back {seed}")
    named = random.random() < 0.4
    first = Command("plain", batches=_batches(random, 2))
    commands = [first, *(_command(random) for _ in range(length))]
    one_way = random.choice([MIDDLE, NEWEST]) if random.random() < 0.15 else None
    return Ways(named, tuple(commands), one_way)


def _command(random: Random) -> Command:
    verb: Verb = random.choice(
        ["plain", "plain", "migrated", "migrated", "migrated", "migrated", "adopt", "undo", "plan",
         "rollback", "rollback"]
    )  # fmt: skip
    return Command(
        verb,
        random.choice(REVISIONS),
        _batches(random, 4),
        control=random.random() < 0.7,
        kill=random.random() < 0.15,
        fails=random.random() < 0.1,
        apply=random.random() < 0.8,
        undo=random.random() < 0.6,
    )


def _batches(random: Random, most: int) -> tuple[tuple[str, ...], ...]:
    # Many batches make Spark forget what the runs before had.
    number = random.choice([1, 1, 2, most, most + 3])
    return tuple(
        tuple(sorted({f"k{random.randrange(KEYS)}" for _ in range(random.randint(1, 3))}))
        for _ in range(number)
    )


class WrongError(AssertionError):
    """A value was lost or wrong, or something was refused without a reason."""


@dataclass
class Figures:
    """What was compared, and how often what was refused."""

    answers: int = 0
    refused: int = 0
    undone: int = 0
    forgotten: int = 0
    done: int = 0


@dataclass
class Player:
    """Plays histories below a folder; ``model`` has each key's count by committed batch."""

    folder: Path
    history: Ways
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self.migrations = self.folder / "migrations"
        self._write_scripts()
        lineage = ScriptFolder(self.migrations).lineages()[STORE]
        root = self.folder / "checkpoint"
        self.query = Query(root, lineage, self.migrations, self.history.named)
        Reader.queries = {str(root): self.query}
        self.model: dict[int, dict[str, int]] = {-1: {}}
        self.has_forgotten = False
        self.may_start_plain = self.was_not_asked = False
        self.plan_targets: dict[str, str] = {}
        self.story: list[str] = []

    def play(self) -> Figures:
        """All commands. Raises `WrongError` with the story."""
        for each in self.history.commands:
            self.story.append(repr(each))
            try:
                getattr(self, f"_{each.verb}")(each)
            except (RefusedBySparkError, UserCodeError) as error:
                self.story.append(f"  {type(error).__name__}: {error}")
            self._compare()
        return self.figures

    def _plain(self, command: Command) -> None:
        before = self.query.committed
        left = self._newer_values()
        batches = [list(each) for each in command.batches]
        try:
            said = self.query.plain(batches, control=command.control, kill=command.kill)
        except StatemigrateError as error:
            if not command.control:
                raise
            self._refused(error)
            return
        if self.query.committed > before and not self.may_start_plain:
            # Empty families too: nobody has read them, and in the end nobody can.
            self.was_not_asked |= len(self.query.database) > 1
        if left and self.query.committed > before:
            if self.may_start_plain:
                raise self._wrong(f"plain code forgets {left} values, and was let")
            self.has_forgotten = True
            self.figures.forgotten += 1
        self._answered(said)

    def _migrated(self, command: Command) -> None:
        batches = [list(each) for each in command.batches]
        options = {"control": command.control, "kill": command.kill, "fails": command.fails}
        try:
            said = self.query.migrated(command.revision, batches, **options)
        except StatemigrateError as error:
            self._refused(error)
            excuse = self.has_forgotten or self.was_not_asked
            if not (excuse or command.control or self.history.one_way):
                raise self._wrong(f"refused without a reason: {error}") from error
            return
        if self.has_forgotten:
            raise self._wrong("marked code started where values were forgotten")
        self.may_start_plain = False
        self._answered(said)

    def _adopt(self, command: Command) -> None:
        try:
            adopt(str(self.query.root), apply=command.apply, stopped=True, wait=0)
        except StatemigrateError as error:
            self._refused(error)

    def _undo(self, command: Command) -> None:
        left = self._newer_values()
        try:
            done = undo_adoption(
                str(self.query.root), apply=command.apply, stopped=True, wait=0, count=self.count
            )
        except StatemigrateError as error:
            self._refused(error)
            return
        if left and not self.has_forgotten:
            raise self._wrong(f"{done.state} with {left} values in newer families")
        self.figures.undone += command.apply
        self.may_start_plain |= command.apply

    def _plan(self, command: Command) -> None:
        self.plan({STORE: command.revision})

    def _rollback(self, command: Command) -> None:
        left = self._newer_values()
        try:
            found = rollback(
                self.query.root, command.revision, undo=command.undo, apply=command.apply,
                stopped=True, wait=0, migrations=self.migrations, spark=lambda: None,
            )  # fmt: skip
        except StatemigrateError as error:
            self._refused(error)
            return
        self.story.append(f"  {found.step}, {found.left} left, did {found.did}")
        if self.has_forgotten:
            raise self._wrong("rolled back where values were forgotten")
        self.figures.done += found.is_done
        if found.is_done and found.left:
            raise self._wrong(f"done with {found.left} values left")
        if found.is_done and command.undo:
            if left:
                raise self._wrong(f"the way to plain code is open with {left} values")
            self.may_start_plain = True

    def plan(self, targets: Mapping[str, str]) -> BackfillPlan:
        """In place of `backfill`: all keys of other families than the target's."""
        target = self.query.lineage.resolve(targets[STORE])
        left = self._left(target)
        keys = sorted({key for each in left.values() for key in each})
        self.query.chunks = [keys[at : at + 2] for at in range(0, len(keys), 2)]
        self.plan_targets = dict(targets)
        counts = {name: len(each) for name, each in left.items()}
        return BackfillPlan(len(keys), len(self.query.chunks), counts, 0)

    def status(self, targets: Mapping[str, str]) -> BackfillStatus:
        """In place of `backfill_status`."""
        left = self._left(self.query.lineage.resolve(targets[STORE]))
        keys = {key for each in left.values() for key in each}
        chunks = len(self.query.chunks)
        families = {name: len(each) for name, each in left.items()}
        is_planned = bool(chunks) and self.plan_targets == targets
        unplanned = () if is_planned else tuple(families)
        return BackfillStatus(len(keys), families, 0, chunks, 0, chunks, 0, unplanned)

    def state(self) -> SimulatedState:
        """In place of `open_state`."""
        return SimulatedState(self.query)

    def count(self, operator: int, batch: int, names: Any) -> dict[str, int]:
        assert operator == 0
        return {name: Reader(str(self.query.root), batch=batch).count(name) for name in names}

    def _left(self, target: str) -> Database:
        name = STORE if target == self.query.lineage.oldest else f"{STORE}@{target}"
        return {each: held for each, held in self.query.database.items() if each != name and held}

    def _newer_values(self) -> int:
        return sum(map(len, self._left(self.query.lineage.oldest).values()))

    def _answered(self, said: list[tuple[int, dict[str, int]]]) -> None:
        for batch, answers in said:
            before = self.model[batch - 1] if batch - 1 in self.model else self.model[-1]
            wanted = {key: before.get(key, 0) + 1 for key in answers}
            self.model[batch] = {**before, **wanted}
            self.figures.answers += len(answers)
            if answers != wanted and not self.has_forgotten:
                raise self._wrong(f"batch {batch} said {answers}, not {wanted}")

    def _compare(self) -> None:
        """Every key is in one family alone, with the value of the model."""
        if self.has_forgotten:
            return
        found: dict[str, list[int]] = {}
        for held in self.query.database.values():
            for key, row in held.items():
                n = int(row[0][1:]) if isinstance(row[0], str) else row[0]
                found.setdefault(key, []).append(n)
        wanted = {key: [n] for key, n in self.model.get(self.query.committed, {}).items()}
        if found != wanted:
            raise self._wrong(f"the state has {found}, not {wanted}")

    def _refused(self, error: StatemigrateError) -> None:
        self.figures.refused += 1
        self.story.append(f"  refused: {error.summary}")

    def _wrong(self, text: str) -> WrongError:
        return WrongError("\n".join([text, repr(self.history), *self.story]))

    def _write_scripts(self) -> None:
        folder = ScriptFolder.create(self.migrations)
        for revision, (down, old, new, up, back) in _SCRIPTS.items():
            labels = f"({STORE!r},)" if down == "None" else None
            downgrade = f"def downgrade(value):\n    return {back}\n"
            downgrade = "" if revision == self.history.one_way else downgrade
            text = (
                f'"""Change."""\nfrom statemigrate.formats import Struct\n\nrevision = "{revision}"'
                f"\ndown_revision = {down}\nbranch_labels = {labels}\nstore = '{STORE}'\n"
                f"old = Struct({old})\nnew = Struct({new})\n\n\n"
                f"def upgrade(value):\n    return {up}\n\n\n{downgrade}"
            )
            (folder.versions / f"{revision}.py").write_text(text)


class SimulatedState:
    """What `rollback` asks of `statemigrate.state.protocol.State`."""

    engine = "native"
    target_is_deployed = keeps_control_source = False
    operator_stores: frozenset[str] = frozenset()

    def __init__(self, query: Query) -> None:
        self._query = query
        self.checkpoint = str(query.root)
        self._reader = Reader(self.checkpoint)
        self.batch = self._reader.committed_batch()
        lineages: dict[str, Lineage] = {STORE: query.lineage}
        self._variables = Variables(self._reader, lineages)  # type: ignore[arg-type]

    @property
    def stores(self) -> Any:
        return self._variables.stores

    def counts(self, store: str) -> dict[str, dict[int, int]]:
        found = {}
        for family in self.stores[store].families:
            if family.name in self._reader.variables():
                found[family.name] = {0: self._reader.count(family.name)}
            else:
                check_listed(self._reader.files, self.batch, family.name)
        return found

    def close(self) -> None:
        pass


def play(folder: Path, history: Ways, figures: Figures | None = None) -> Figures:
    """Play a history below a folder, which is removed. Raises `WrongError`."""
    player = Player(folder, history, figures or Figures())
    try:
        with _simulated(player):
            return player.play()
    finally:
        shutil.rmtree(folder)


def shortened(folder: Path, history: Ways) -> tuple[Ways, str]:
    """A history that fails too, without a command that it does not need for that; and how."""
    failure = failure_of(folder, history)
    assert failure is not None, "it does not fail"
    shorter = (replace(history, commands=each) for each in _left_out(history.commands))
    for each in shorter:
        if failure_of(folder, each) is not None:
            return shortened(folder, each)
    return history, failure


def failure_of(folder: Path, history: Ways) -> str | None:
    """What is wrong with a history, None if nothing is."""
    try:
        play(folder, history)
    except WrongError as error:
        return str(error)
    return None


def _left_out(commands: tuple[Command, ...]) -> Iterator[tuple[Command, ...]]:
    return (commands[:at] + commands[at + 1 :] for at in range(len(commands)))


@contextmanager
def _simulated(player: Player) -> Iterator[None]:
    """Whatever would ask Spark asks the player's query; no start asks git for the code's commit."""
    reader = str(player.query.root)
    replaced = {
        "statemigrate.native.variables_startup.SparkCheckpoint": Reader,
        "statemigrate.commands.rollback.open_committed": lambda *_, **__: player.state(),
        "statemigrate.commands.backfill.backfill": lambda _, at: player.plan(at.targets),
        "statemigrate.commands.backfill.backfill_status_of": (
            lambda _, at: player.status(at.targets)
        ),
        "statemigrate.commands.adopt.counting": lambda *_: player.count,
        "statemigrate.native.adoption_checks.column_families": (
            lambda *_: Reader(reader).column_families()
        ),
    }
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {CODE_VERSION: "simulated"}))
        for name, by in replaced.items():
            stack.enter_context(patch(name, by))
        yield
