"""A query's lives through a bucket that fails, each ended by SIGKILL, an error or its own end.

What is committed at the end is compared key by key with a model that knows no failure, and so is
what an idempotent sink has.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from s3_life import live
from systems.s3_proxy import Faults, S3Proxy
from tally import AMOUNTS, CENTS, FAMILIES, Expected, Scripts, batch

from statemigrate.demo.stage import ProcessSession

ENGINES = ("embedded", "native", "paged")
LIFE = Path(__file__).with_name("s3_life.py")
FAULTS = Faults(
    delay=0.05,
    delay_seconds=0.2,
    slow_down=0.02,
    drop_before=0.015,
    drop_after=0.015,
    cut=0.01,
    stale=0.1,
    lag=3.0,
)
_SCHEMA = pa.schema([("key", pa.string()), ("cents", pa.int64()), ("name", pa.string())])
_CONF = {
    # The pauses of a connector between its attempts, which count in minutes otherwise.
    "spark.hadoop.fs.s3a.retry.interval": "100ms",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "50ms",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "8",
    "spark.task.maxFailures": "4",
}
# Requests of a life: after more of them nothing would be left to kill.
_MOST = {("native", AMOUNTS): 1_600, ("native", "rewrite"): 600, ("native", "fork"): 250}
_PATIENCE = 900  # seconds
_NAMED = re.compile(r"^(statemigrate\.errors|statemigrate\.files|pyspark\.errors|py4j\.protocol)\.")


@dataclass
class Figures:
    """What happened; ``errors`` are lives that a fault has ended, each by a named error."""

    lives: int = 0
    kills: int = 0
    errors: int = 0
    values: int = 0
    said: list[str] = field(default_factory=list)


@dataclass
class S3Lives:
    """One checkpoint's; ``jars`` and ``conf`` are the connector's.

    Lives that nobody is to kill run in the ``session`` where there is one, else in processes.
    """

    engine: str
    folder: Path
    proxy: S3Proxy
    checkpoint: str
    jars: Iterable[Path]
    conf: dict[str, str]
    chance: random.Random
    figures: Figures = field(default_factory=Figures)
    session: Any = None
    revisions: dict[str, str] = field(
        default_factory=lambda: {name: revision for revision, name in FAMILIES.items()}
    )
    """Of the values by their family."""
    _batches: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "input").mkdir(parents=True)
        self._migrations = Scripts(self.folder / "migrations").write()

    def feed(self, files: int) -> None:
        """Add so many files of input, each of them a batch."""
        for number in range(len(self._batches), len(self._batches) + files):
            first = self.chance.randrange(40)
            rows = batch(f"b{number}", range(first, first + self.chance.randrange(10, 40)))
            self._batches[f"b{number}"] = rows
            table = pa.Table.from_pylist(
                [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], _SCHEMA
            )
            beside = self.folder / "input" / f"_{number:06d}"
            pq.write_table(table, beside)
            os.utime(beside, (1_700_000_000 + number,) * 2)
            beside.rename(beside.with_name(f"{number:06d}.parquet"))

    def killed(self, revision: str) -> None:
        """A life that is ended by SIGKILL at some request to the bucket, unless it ends before."""
        self._faulty()
        life = self._started(revision)
        after = self.chance.randrange(20, _MOST.get((self.engine, revision), 400))
        first = len(self.proxy.requests)
        self._wait(life, lambda: len(self.proxy.requests) >= first + after)
        if life.exit_code() is None:
            self.figures.kills += 1
        self._ended(life)

    def expired(self, revision: str) -> None:
        """A life whose credentials expire at some request, and are good again a second later."""
        self._faulty()
        life = self._started(revision)
        first, after = len(self.proxy.requests), self.chance.randrange(20, 300)
        self._wait(life, lambda: len(self.proxy.requests) >= first + after)
        self.proxy.switch(replace(self.proxy.faults, expired=True))
        time.sleep(1.5)
        self._faulty()
        self._wait(life, lambda: False)
        self._ended(life)

    def to_the_end(self, revision: str) -> None:
        """Lives until one comes to its end, and has written what is in the state."""
        for _ in range(8):
            if self.came_to_its_end(revision):
                return
        raise AssertionError(f"no life came to its end:\n{self.figures.said[-8:]}")

    def came_to_its_end(self, revision: str) -> bool:
        """Whether a life that nobody kills did, for all faults."""
        self._faulty()
        if self.session is not None:
            return self._lived_here(revision)
        life = self._started(revision)
        self._wait(life, lambda: False)
        code = life.exit_code()
        self._ended(life)
        return code == 0

    def _lived_here(self, revision: str) -> bool:
        self.figures.lives += 1
        try:
            live(self.session, self.told(revision))
        except Exception as error:  # which are named, is what is looked at
            self._failed(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
            return False
        return True

    def compare(self) -> None:
        """State and output are what the model says; each key is in one family, and whole."""
        expected = self._expected()
        found = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        keys = [key for values in found.values() for key in values]
        assert sorted(keys) == sorted(expected.values), "a key is lost, or in two families"
        for family, values in found.items():
            revision = self.revisions[family]
            model = expected.copy()
            for key in values:
                model.move(key, revision)
            wanted = model.stored(CENTS, AMOUNTS)[FAMILIES[revision]]
            plain = json.loads(json.dumps(wanted, default=str))
            assert values == {key: plain[key] for key in values}, family
        self.figures.values += len(keys)

    def compare_output(self) -> None:
        """What the sink has, by the batch that it came in last."""
        outputs = self._outputs()
        rows = [tuple(row) for output in outputs.values() for row in output["rows"]]
        assert sorted(rows) == sorted(self._expected().output.elements())
        self.figures.values += len(rows)

    def _expected(self) -> Expected:
        revisions: dict[str, str] = {}
        for number, output in self._outputs().items():
            for name in {row[3] for row in output["rows"]}:
                assert name not in revisions, f"{name} was counted twice, again in batch {number}"
                revisions[name] = CENTS if output["revision"] == CENTS else AMOUNTS
        assert sorted(revisions) == sorted(self._batches), "a batch is lost"
        expected = Expected()
        for name, rows in self._batches.items():
            expected.process(rows, revisions[name])
        return expected

    def _outputs(self) -> dict[int, Any]:
        paths = {int(path.stem): path for path in (self.folder / "out").glob("*.json")}
        return {
            n: json.loads(path.read_text(encoding="utf-8")) for n, path in sorted(paths.items())
        }

    def told(self, revision: str) -> dict[str, Any]:
        """What a life is told."""
        return {
            "engine": self.engine,
            "revision": revision,
            "root": str(self.folder),
            "checkpoint": self.checkpoint,
            "migrations": str(self._migrations),
            "jars": [*map(str, self.jars)],
            "conf": {**self.conf, **_CONF},
        }

    def _faulty(self) -> None:
        self.proxy.switch(replace(FAULTS, seed=self.chance.randrange(2**32)))

    def _started(self, revision: str) -> ProcessSession:
        self.figures.lives += 1
        (self.folder / "ready").unlink(missing_ok=True)
        life = ProcessSession(
            [sys.executable, str(LIFE), json.dumps(self.told(revision))],
            directory=self.folder,
            environment={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            log=self.folder / f"life-{self.figures.lives}.log",
        )
        self._wait(life, (self.folder / "ready").exists)
        return life

    def _wait(self, life: ProcessSession, condition: Any) -> None:
        deadline = time.monotonic() + _PATIENCE
        while life.exit_code() is None and not condition():
            if time.monotonic() > deadline:
                life.kill()
                raise AssertionError(f"a life has no end:\n{self._log()[-3000:]}")
            time.sleep(0.02)

    def _ended(self, life: ProcessSession) -> None:
        code = life.exit_code()
        life.kill()
        if code not in (None, 0):
            self._failed(_last_error(self._log()), self._log())

    def _failed(self, said: str, log: str = "") -> None:
        self.figures.errors += 1
        assert _NAMED.match(said), f"an error without a name:\n{said}\n{log[-3000:]}"
        self.figures.said.append(said)

    def _log(self) -> str:
        path = self.folder / f"life-{self.figures.lives}.log"
        return path.read_text(encoding="utf-8", errors="replace")


def _last_error(log: str) -> str:
    """The class that a traceback of Python's ends with, and its message."""
    lines = log[log.rfind("Traceback (most recent call last)") :].splitlines()
    return next((line for line in lines[1:] if line and not line.startswith(" ")), log[-300:])


def history(lives: S3Lives, kills: int = 2) -> None:
    """A query that is killed, migrates meanwhile, and is killed again; then all is compared."""
    lives.feed(3)
    lives.killed(CENTS)
    if lives.chance.random() < 0.3:
        lives.to_the_end(CENTS)
    for number in range(1, kills):
        lives.feed(1)
        if number == kills - 1:
            lives.expired(AMOUNTS)
        else:
            lives.killed(AMOUNTS)
    lives.to_the_end(AMOUNTS)
    lives.compare()
    lives.compare_output()
