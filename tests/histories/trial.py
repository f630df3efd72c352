"""One history, run and compared life after life."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expectations import (
    Ledger,
    is_by_spark,
    may_forget,
    must_be_refused,
    oddities,
    refusals,
)
from formats import LAST
from history import History, Life
from model import Model
from native_lives import NativeLives, is_named
from session import Session
from views import Shown, count, stored, wanted


class WrongError(AssertionError):
    """A history broke a promise."""


@dataclass
class Figures:
    """What was run and compared."""

    lives: int = 0
    kills: int = 0
    refused: int = 0
    values: int = 0
    batches: int = 0

    def add(self, other: Figures) -> None:
        """Sum up."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Trial:
    """A history on a checkpoint of its own below ``root``. Raises `WrongError`."""

    session: Session
    root: Path
    history: History
    figures: Figures = field(default_factory=Figures)
    engine: type[NativeLives] = NativeLives
    story: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lives = self.engine(self.session, self.root, self.history)
        self.model = Model(self.history.types, self.history.user_key)
        self.ledger = Ledger()
        self.excused: set[str] = set()
        self._early: Any = None
        self._backed_up: tuple[bool, frozenset[str]] = (False, frozenset())

    def run(self) -> Figures:
        """All lives, or until code without statemigrate has lost what nobody can find again."""
        for number, life in enumerate(self.history.lives):
            self._life(number, life)
            if "over" in self.ledger.excuses:
                break
        return self.figures

    def _life(self, number: int, life: Life) -> None:
        self.figures.lives += 1
        for action in life.before:
            self._action(life, number, action)
        self.lives.feed(life)
        excuses = oddities(self.history, life, self.ledger, self.lives.sources())
        before = self._durable()
        processor = self._processor(number, life, excuses)
        self._make_early(number + 1)
        if processor is not None:
            self._run(life, processor, excuses)
        elif self._durable() != before:
            raise self._wrong("a refused life changed the checkpoint")
        self._compare(life)

    def _action(self, life: Life, number: int, action: list[Any]) -> None:
        self.story.append(f"life {number}: {action}")
        if action[0] == "restore":
            self.ledger.may_be_plain = False
            if self.lives.restore():
                self.model.forget(self.lives.planned())
                self.ledger.excuses.add("restored")
                self.ledger.is_tainted, self.ledger.targets = self._backed_up
            return
        if action[0] in ("lose", "copy"):
            self.ledger.excuses.add(" ".join(action[:2]))
        if action[0] != "plan" and not self.lives.checkpoint.exists():
            return
        try:
            self.ledger.may_be_plain |= self.lives.prepare(life, number, action)
        except Exception as error:
            if not is_named(error):
                raise self._wrong(f"{action} ended in {type(error).__name__}: {error}") from error
            self.story.append(f"  refused: {error.summary}")  # type: ignore[attr-defined]
        if action[0] == "backup":
            self._backed_up = (self.ledger.is_tainted, self.ledger.targets)

    def _processor(self, number: int, life: Life, excuses: set[str]) -> Any:
        if life.early and self._early is not None:
            return self._early
        return self._made(number, life, excuses)

    def _make_early(self, number: int) -> None:
        self._early = None
        if number < len(self.history.lives) and self.history.lives[number].early:
            self._early = self._made(number, self.history.lives[number], {"made early"})

    def _made(self, number: int, life: Life, excuses: set[str]) -> Any:
        try:
            return self.lives.processor(life, number)
        except Exception as error:
            self._refused(error, life, excuses, is_planned=False)
            return None

    def _run(self, life: Life, processor: Any, excuses: set[str]) -> None:
        planned = self.lives.planned()
        was_committed = self.lives.committed()
        forgets = may_forget(life, excuses) and self.lives.forgets(life, self.ledger)
        try:
            self.lives.run(life, processor)
            self.story.append(f"  ran to its end {sorted(excuses) or ''}")
            self._check_end(life)
        except Exception as error:
            is_killed = bool(life.end) and life.end[0] == "process" and self.session.is_killed()
            is_planned = is_killed or "a planned kill" in str(error)
            self._refused(error, life, excuses, is_planned=is_planned)
            if is_killed:
                self.session.renew()
        if self.lives.planned() > planned or self.lives.handed:
            self.ledger.started(life)
        if self.lives.committed() > was_committed:
            if forgets and self.ledger.may_be_plain and life.code == "plain":
                raise self._wrong("plain code forgets values, and was let")
            self.ledger.committed(life, is_rerun=planned > was_committed)
            self.ledger.is_tainted |= forgets or _is_other(life)
        if not self.ledger.is_tainted:
            self._said(life)
            self._check_fed()

    def _check_end(self, life: Life) -> None:
        if self.lives.handed and must_be_refused(life, self.ledger):
            raise self._wrong("ran on where plain code had forgotten values")

    def _check_fed(self) -> None:
        if self.story[-1].startswith("  ran"):
            missing = set(self.lives.events) - self.model.files(self.lives.planned())
            if missing:
                raise self._wrong(f"the files {sorted(missing)} were never processed")

    def _refused(
        self, error: Exception, life: Life, excuses: set[str], *, is_planned: bool
    ) -> None:
        text = f"{type(error).__module__}.{type(error).__name__}: {error}"
        self.excused |= excuses
        if is_planned:
            self.figures.kills += 1
            self.story.append("  killed as planned")
            return
        named = refusals(text)
        if excuses and (named or is_by_spark(text, life, excuses)):
            self.figures.refused += 1
            first = str(error).strip().splitlines()[0] if named else "by Spark"
            self.story.append(f"  refused {sorted(excuses)}: {sorted(named)} {first[:300]}")
            return
        what = "an excuse" if named else "a name"
        raise self._wrong(f"refused without {what} {sorted(excuses)}: {_end(text)}") from error

    def _said(self, life: Life) -> None:
        """Compare what the code said of each batch, also of one that was not committed."""
        for batch, rows in self.lives.handed:
            self.figures.batches += 1
            files = sorted({file for _, names, _ in rows for file in json.loads(names)})
            events = [event for file in files for event in self.lives.events[file]]
            if not events:
                continue
            wanted_rows = self.model.batch(batch, events)
            found = {key: seen for key, _, seen in rows}
            self.figures.values += len(found)
            if found != wanted_rows or len(rows) != len(found):
                raise self._wrong(f"batch {batch} said {_difference(found, wanted_rows)}")

    def _compare(self, life: Life) -> None:
        """Compare every key of every store as of the last committed batch."""
        batch = self.lives.committed()
        if self.ledger.is_tainted or batch < 0:
            self._after_taint(life)
            return
        edited = {s for s, variants in self.ledger.variants.items() if True in variants}
        folder = self.lives.reference(edited)
        try:
            found = self._read(life, folder)
        except Exception as error:
            if is_named(error) and (self.ledger.excuses or edited or self.ledger.is_rerun):
                self.story.append(f"  not read: {error}")
                return
            raise self._wrong(
                f"reading ended in {type(error).__name__}: {_end(str(error))}"
            ) from error
        expected = wanted(self.history, self.model, self.model.after(batch))
        self.figures.values += count(expected)
        for store, held in expected.items():
            if found.get(store, {}) != held:
                raise self._wrong(f"{store} is {_difference(found.get(store, {}), held)}")

    def _read(self, life: Life, folder: Path) -> Shown:
        """What the checkpoint holds; after the last life as a copy whose original is gone."""
        place = self.lives.checkpoint
        if life is not self.history.lives[-1]:
            return stored(self.history, place, folder, LAST, self.session.spark)
        moved = place.rename(self.root / "moved")
        try:
            return stored(self.history, moved, folder, LAST, self.session.spark)
        finally:
            moved.rename(place)

    def _after_taint(self, life: Life) -> None:
        if self.ledger.is_tainted and life.code == "migrated" and life.checkpoint != "right":
            self.ledger.excuses.add("over")

    def _durable(self) -> dict[str, int]:
        root = self.lives.checkpoint
        folders = [root / name for name in ("offsets", "commits", "state")]
        files = [at for folder in folders for at in folder.rglob("*") if at.is_file()]
        return {str(at.relative_to(root)): at.stat().st_size for at in files}

    def _wrong(self, text: str) -> WrongError:
        return WrongError("\n".join([text, *self.story]))


def run(
    session: Session,
    root: Path,
    history: History,
    figures: Figures | None = None,
    engine: type[NativeLives] = NativeLives,
) -> Figures:
    """Run a history below ``root``, which is removed after it. Raises `WrongError`."""
    root.mkdir(parents=True)
    figures = Figures() if figures is None else figures
    trial = Trial(session, root, history, figures, engine)
    try:
        return trial.run()
    finally:
        for query in session.spark.streams.active:
            query.stop()
        shutil.rmtree(root, ignore_errors=True)


def _is_other(life: Life) -> bool:
    is_plain = life.code == "plain"
    return any(at and (is_plain or not life.scripts[store]) for store, at in life.revisions.items())


def _end(text: str) -> str:
    return text if len(text) < 3000 else f"{text[:1200]}\n...\n{text[-1600:]}"


def _difference(found: dict[Any, str], wanted: dict[Any, str]) -> str:
    keys: Iterable[Any] = dict.fromkeys([*wanted, *found])
    wrong = [key for key in keys if found.get(key) != wanted.get(key)]
    lines = [f"\n    {k!r}: {found.get(k)!s:.300}, not {wanted.get(k)!s:.300}" for k in wrong[:5]]
    return f"wrong in {len(wrong)} of {len(wanted)} keys:{''.join(lines)}"
