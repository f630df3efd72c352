"""A history's lives on Spark's own state: one checkpoint, input files, a sink that remembers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corners import KEYS
from expectations import Ledger, declared
from formats import LAST, STORES, revision_id, write_scripts
from history import History, Life
from native_pipeline import NativePipeline
from processors import Doer, DoerInPandas, PlannedKill
from session import Session

from statemigrate import (
    Rollback,
    backfill,
    migrated,
    pause_backfill,
    rollback,
    with_backfill,
)
from statemigrate.commands.adopt import adopt, undo_adoption
from statemigrate.errors import StatemigrateError

OUTPUT = "id BIGINT, files STRING, seen STRING"
_TOO_LONG = 120  # seconds
_NAMED = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_LOST = {
    "commits": "commits",
    "record": "statemigrate/deployed.json",
    "statemigrate": "statemigrate",
}


@dataclass
class NativeLives:
    """Deploys lives; ``handed`` has (batch, rows) for every call of the sink in the last one."""

    session: Session
    root: Path
    history: History
    checkpoint: Path = field(init=False)
    handed: list[tuple[int, list[Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checkpoint = self.root / "checkpoint"
        self._fail_at: int | None = None
        self._files: dict[int, list[Any]] = {}
        rows = f"{KEYS[self.history.key][0]}, id BIGINT, file BIGINT, seq BIGINT, ops STRING"
        self.by = [column.split()[0] for column in KEYS[self.history.key][0].split(", ")]
        self._inputs = [
            NativePipeline(self.spark, self.root / f"stream{number}", rows, OUTPUT)
            for number in range(self.history.inputs)
        ]
        self.reference(set())

    @property
    def spark(self) -> Any:
        """The session, which may be another one after a kill."""
        return self.session.spark

    @property
    def events(self) -> dict[int, list[Any]]:
        """By file what its rows were: key's number, file's number, place, operations."""
        return self._files

    def reference(self, edited: set[str]) -> Path:
        """All scripts, to read with."""
        steps = dict.fromkeys(self.history.types, LAST)
        return self._folder(f"reference{''.join(sorted(edited))}", steps, sorted(edited))

    def sources(self) -> int | None:
        """How many sources the offset log has; None where any number will do."""
        files = self._numbered("offsets")
        if not files:
            return None
        version, _, *offsets = files[max(files)].read_text().rstrip("\n").split("\n")
        return len(offsets) if version == "v1" else None

    def committed(self) -> int:
        """The last committed batch, -1 before the first."""
        return max(self._numbered("commits"), default=-1)

    def planned(self) -> int:
        """The last batch in the offset log, -1 before the first."""
        return max(self._numbered("offsets"), default=-1)

    def forgets(self, life: Life, ledger: Ledger) -> bool:
        """Whether a variable that the life's code does not declare holds anything, or may do so.

        Spark lists no family that was first written by code that ran another's killed batch again.
        """
        if self.committed() < 0:
            return False
        reading = NativePipeline(self.spark, self.root / "unused")
        reading.checkpoint_directory = self.checkpoint
        variables, known = reading.variables(), declared(life)
        if ledger.targets - variables - known:
            return True
        kinds = {name: STORES[name.partition("@")[0]] for name in variables - known}
        return any(reading.state(name, kind) for name, kind in kinds.items())

    def feed(self, life: Life) -> None:
        """Write the life's input files."""
        keys = KEYS[self.history.key][1]
        for rows in life.feed:
            file = len(self._files)
            self._files[file] = [(key, file, seq, ops) for seq, (key, ops) in enumerate(rows)]
            self._inputs[file % len(self._inputs)].feed(
                [
                    (*keys[key], key, file, seq, json.dumps(ops))
                    for key, file, seq, ops in self._files[file]
                ]
            )

    def prepare(self, life: Life, number: int, action: list[Any]) -> bool:
        """What is done to the checkpoint before a life. Raises statemigrate's own errors.

        True where it has taken the backfill source out, and so said that plain code may start.
        """
        name, *given = action
        doing: dict[str, Callable[[], Any]] = {
            "plan": lambda: backfill(
                self.checkpoint, migrations=self.scripts(life, number),
                targets=self.targets(life), spark=self.spark, **_size(given),
            ),
            "pause": lambda: pause_backfill(self.checkpoint),
            "adopt": lambda: adopt(str(self.checkpoint), apply=True, stopped=True, wait=0),
            "undo": lambda: undo_adoption(
                self.checkpoint, apply=True, stopped=True, wait=0, spark=self.spark
            ),
            "rollback": lambda: rollback(
                self.checkpoint, "base", undo=given[0], apply=True, stopped=True, wait=0,
                migrations=self.scripts(life, number), spark=self.spark,
            ),
            "copy": lambda: self._copied(self.root / f"checkpoint{number}"),
            "backup": self._backed_up,
            "lose": lambda: _remove(self.checkpoint / self._lost(given[0])),
        }  # fmt: skip
        done = doing[name]()
        return name == "undo" or (isinstance(done, Rollback) and done.is_done and given[0])

    def _lost(self, what: str) -> str:
        # The backfill source is the last one.
        return f"sources/{self.history.inputs}" if what == "control log" else _LOST[what]

    def restore(self) -> bool:
        """Put the backup in the place of the checkpoint, if there is one."""
        backup = self.root / "backup"
        if backup.exists():
            _remove(self.checkpoint)
            shutil.copytree(backup, self.checkpoint)
        return backup.exists()

    def scripts(self, life: Life, number: int) -> Path:
        """The folder that the life has."""
        return self._folder(f"scripts{number}", life.scripts, life.edited)

    def processor(self, life: Life, number: int) -> Any:
        """The life's code, checked if it is."""
        made = self.code(DoerInPandas if self.history.in_pandas else Doer, life, number)
        if life.code == "plain":
            return made()
        places = {"right": self.checkpoint, "none": None, "typo": self.root / "chekpoint",
                  "other": self._other()}  # fmt: skip
        options = {
            "migrations": self.scripts(life, number),
            "targets": self.targets(life) if life.targets == "named" else None,
            "checkpoint": places[life.checkpoint],
            "write_on_read": life.write_on_read,
            "retire_drained": life.retire,
        }
        if life.wrapper == "class":
            return migrated(**options)(made)()
        return migrated(made(), **options)

    def marked(self, life: Life, number: int) -> Any:
        """The life's code for an engine that is told the checkpoint with the query."""
        made = self.code(Doer, life, number)
        if life.code == "plain":
            return made()
        options = {
            "migrations": self.scripts(life, number),
            "targets": self.targets(life) if life.targets == "named" else None,
            "write_on_read": life.write_on_read,
        }
        if life.wrapper == "class":
            return migrated(**options)(made)()
        return migrated(made(), **options)

    def code(self, base: type[Doer], life: Life, number: int) -> Any:
        """The class that the user wrote for the life."""
        body = {
            "types": self.history.types, "user_key": self.history.user_key,
            "revisions": life.revisions, "kill": self._kill(life, number),
        }  # fmt: skip
        return type("Code", (base,), body)

    def run(self, life: Life, processor: Any) -> None:
        """Process everything that is there. Raises what the start or the query raises."""
        self.begin(life)
        stream = self.inputs()
        if life.backfill:
            stream = with_backfill(stream, self.by, checkpoint=self.checkpoint)
        grouped = stream.groupBy(*self.by)
        in_pandas = self.history.in_pandas
        call = grouped.transformWithStateInPandas if in_pandas else grouped.transformWithState
        self.write(call(processor, OUTPUT, "Update", "None"))

    def write(self, result: Any) -> None:
        """Have the sink take what the query gives, to the end of the input."""
        writer = result.writeStream.outputMode("update")
        writer = writer.foreachBatch(self.sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        assert query.awaitTermination(_TOO_LONG), "the query does not end"

    def begin(self, life: Life) -> None:
        """Set what the sink and Spark need to know of the life."""
        self.handed = []
        self._fail_at = life.end[1] if life.end and life.end[0] == "sink" else None
        self.spark.conf.set(_NAMED, str(self.history.named).lower())

    def inputs(self) -> Any:
        """The user's stream."""
        streams = [self._read(number) for number in range(len(self._inputs))]
        return streams[0] if len(streams) == 1 else streams[0].union(streams[1])

    def _read(self, number: int) -> Any:
        pipeline = self._inputs[number]
        reader = self.spark.readStream.schema(pipeline.rows).option("maxFilesPerTrigger", 1)
        if self.history.named:
            reader = reader.name(f"input{number}")
        return reader.parquet(f"{pipeline.input}/*.parquet")

    def sink(self, rows: Any, batch: int) -> None:
        """Remember, and fail where it is planned."""
        self.handed.append((batch, [tuple(row) for row in rows.collect()]))
        if self._fail_at is not None and len(self.handed) == self._fail_at:
            raise PlannedKill("a planned kill in the sink")

    def _kill(self, life: Life, number: int) -> tuple[int, int, int] | None:
        if not life.end or life.end[0] == "sink":
            return None
        fed = sum(len(each.feed) for each in self.history.lives[:number])
        return (fed + life.end[1], life.end[2], self.session.process * (life.end[0] == "process"))

    def targets(self, life: Life) -> dict[str, str]:
        return {store: revision_id(store, at) for store, at in life.revisions.items()
                if life.scripts[store]}  # fmt: skip

    def _folder(self, name: str, steps: dict[str, int], edited: list[str]) -> Path:
        folder = self.root / name
        if not folder.exists():
            write_scripts(folder, self.history.types, steps, self.history.one_way, edited)
        return folder

    def _other(self) -> Path:
        (self.root / "other").mkdir(exist_ok=True)
        return self.root / "other"

    def _copied(self, target: Path) -> None:
        shutil.copytree(self.checkpoint, target)
        self.checkpoint = target

    def _backed_up(self) -> None:
        _remove(self.root / "backup")
        shutil.copytree(self.checkpoint, self.root / "backup")

    def _numbered(self, folder: str) -> dict[int, Path]:
        at = self.checkpoint / folder
        files = at.iterdir() if at.is_dir() else ()
        return {int(each.name): each for each in files if each.name.isdecimal()}


def _size(given: list[Any]) -> dict[str, Any]:
    """How a plan is cut: into chunks of so many keys, or while the query runs, by a share."""
    keys_per_chunk, *share = given
    return {"share": share[0]} if share else {"keys_per_chunk": keys_per_chunk}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_named(error: BaseException) -> bool:
    """Whether it is one of statemigrate's."""
    return isinstance(error, StatemigrateError)
