"""The example's programs as a user runs them, each life ended by SIGKILL."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bank import Balance, Bank
from support.waiting import eventually

from statemigrate.demo.stage import ProcessSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_postgres"
MIGRATIONS = EXAMPLE / "migrations"
_PATIENCE = 300  # seconds


@dataclass
class Lives:
    """One query's lives. ``flags`` are the programs' own, ``jars`` Spark's connector."""

    folder: Path
    bank: Bank
    database: str
    jars: tuple[Path, ...]
    flags: tuple[str, ...]
    chance: random.Random
    kills: int = 0
    _began: list[ProcessSession] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def kill_in_start(self, program: str) -> None:
        """A life that ends while it starts: before, in, or right after its checks."""
        life = self._start(program)
        time.sleep(self.chance.uniform(2, 12))
        self._kill(life)

    def kill_in_batch(self, program: str, number: int, meanwhile: Callable[[], None]) -> None:
        """A life that ends in, or between, its batches: soon after it began so many of them."""
        life, before = self._start(program), self._batches("offsets")
        meanwhile()
        self._wait(life, lambda: self._batches("offsets") >= before + number)
        time.sleep(self.chance.uniform(0, 2))
        self._kill(life)

    def run_until(self, program: str, done: Callable[[], bool]) -> None:
        """A life that gets there; it is ended like the others."""
        life = self._start(program)
        self._wait(life, done)
        self._kill(life)

    def run_to_its_end(self, program: str) -> str:
        """A life that ends by itself; what it said."""
        life = self._start(program)
        eventually(lambda: life.exit_code() is not None)
        life.kill()
        assert life.exit_code() == 1
        return (self.folder / f"life-{len(self._began) - 1}.log").read_text(encoding="utf-8")

    def is_caught_up(self) -> bool:
        """Whether every movement was counted, in a batch that was committed."""
        moved = sum(times for _, times, _ in self.balances().values())
        assert moved <= self.bank.movements, "a movement was counted twice"
        begun, committed = self._batches("offsets"), self._batches("commits")
        return moved == self.bank.movements and begun == committed

    def balances(self) -> dict[str, Balance]:
        """What the output has for each account."""
        import psycopg

        with psycopg.connect(self.database) as connection:
            if connection.execute("SELECT to_regclass('balances')").fetchone() == (None,):
                return {}
            rows = connection.execute("SELECT account, balance, movements, largest FROM balances")
            return {account: tuple(balance) for account, *balance in rows}

    def _start(self, program: str) -> ProcessSession:
        life = ProcessSession(
            [sys.executable, str(EXAMPLE / f"{program}.py"), *self.flags],
            directory=self.folder,
            environment=self._environment(),
            log=self._log(),
        )
        self._began.append(life)
        return life

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "PYSPARK"))}
        jars = f"--jars {','.join(map(str, self.jars))} " if self.jars else ""
        quiet = ("spark.ui.enabled=false", "spark.ui.showConsoleProgress=false")
        conf = " ".join(f"--conf {each}" for each in (*quiet, "spark.driver.host=127.0.0.1"))
        return {
            **kept,
            "KAFKA": self.bank.kafka,
            "DATABASE": self.database,
            "CHECKPOINT": str(self.checkpoint),
            "PYSPARK_SUBMIT_ARGS": f"{jars}{conf} pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _log(self) -> Path:
        return self.folder / f"life-{len(self._began)}.log"

    def _wait(self, life: ProcessSession, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        log = self.folder / f"life-{len(self._began) - 1}.log"
        while not done():
            ended = life.exit_code() is not None
            if ended or time.monotonic() > deadline:
                life.kill()
                said = log.read_text(encoding="utf-8", errors="replace")[-6000:]
                raise AssertionError(f"{'ended' if ended else 'too slow'}, {log}:\n{said}")
            time.sleep(0.2)

    def _kill(self, life: ProcessSession) -> None:
        assert life.exit_code() is None, f"life {len(self._began) - 1} had ended by itself"
        life.kill()
        self.kills += 1

    def _batches(self, log: str) -> int:
        """How many batches one of Spark's logs has had."""
        names = (path.name for path in (self.checkpoint / log).glob("[0-9]*"))
        return 1 + max(map(int, names), default=-1)
