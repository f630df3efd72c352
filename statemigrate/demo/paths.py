"""Where the demonstration finds the example's migrations, and where it keeps its own files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from statemigrate.demo.demo_size import DemoOptions
from statemigrate.errors import StatemigrateError
from statemigrate.native import check_readable

_PACKAGE = Path(__file__).resolve().parent


def example_migrations() -> Path:
    """The example's folder of scripts: part of an installed package, next to it in a clone.

    Raises `StatemigrateError` where neither is there.
    """
    candidates = (_PACKAGE / "migrations", _PACKAGE.parents[1] / "migrations")
    for candidate in candidates:
        if (candidate / "script.py.mako").is_file():
            return candidate
    raise StatemigrateError(
        "SM-DEMO-007",
        "the example's migration scripts are missing",
        expected=" or ".join(map(str, candidates)),
        found="neither",
        next_action="install the package again, or run the demonstration from a whole clone",
    )


@dataclass(frozen=True)
class DemoFolder:
    """Paths of one demonstration. Its processes run in ``root``, and nothing is put elsewhere."""

    root: Path

    @classmethod
    def create(cls, root: Path, options: DemoOptions) -> DemoFolder:
        """Make the folder in a new or empty directory. Raises `StatemigrateError` for another."""
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise StatemigrateError(
                "SM-DEMO-008",
                f"{root} is in use for something else",
                expected="a new or an empty directory",
                found="a directory with something in it" if root.is_dir() else "a file",
                next_action="name another one: --keep FOLDER",
                path=str(root),
            )
        folder = cls(root.resolve())
        if options.engine != "embedded":
            check_readable(str(folder.checkpoint))
        for path in (folder.events, folder.output, folder.new_output, folder.temporary):
            path.mkdir(parents=True)
        folder._options.write_text(json.dumps(asdict(options)))
        return folder

    @property
    def options(self) -> DemoOptions:
        """The options the folder was made with."""
        return DemoOptions(**json.loads(self._options.read_text()))

    @property
    def generated(self) -> Path:
        """Event files that have not arrived yet."""
        return self.root / "generated"

    @property
    def events(self) -> Path:
        """Event files the stream reads."""
        return self.root / "events"

    @property
    def checkpoint(self) -> Path:
        """The query's checkpoint, the same for both deployments."""
        return self.root / "checkpoint"

    @property
    def new_checkpoint(self) -> Path:
        """What a rewrite makes of it."""
        return self.root / "checkpoint-2"

    @property
    def migrations(self) -> Path:
        """The scripts of a rewrite, or of a demonstration that is kept."""
        return self.root / "migrations"

    @property
    def jobs(self) -> Path:
        """The code of the deployments, where the demonstration is kept."""
        return self.root / "jobs"

    @property
    def project(self) -> Path:
        """What a kept demonstration says to commands that are run in its folder."""
        return self.root / "pyproject.toml"

    @property
    def output(self) -> Path:
        """The sink: one Parquet file a batch."""
        return self.root / "output"

    @property
    def new_output(self) -> Path:
        """The sink of the code that goes on after a rewrite, whose rows are others."""
        return self.root / "output-2"

    @property
    def expected(self) -> Path:
        """What the batch computation says every key must be, as one Parquet file."""
        return self.root / "expected.parquet"

    @property
    def state(self) -> Path:
        """The state of Spark's own store in the end, one row a key, as one Parquet file."""
        return self.root / "state.parquet"

    @property
    def rewritten(self) -> Path:
        """What a rewrite did, and what was found when it was verified, as a JSON document."""
        return self.root / "rewritten.json"

    def previewed(self, role: str) -> Path:
        """What a preview has found, as a JSON document."""
        return self.root / f"{role.replace(' ', '-')}.json"

    @property
    def working(self) -> Path:
        """The engine's disposable copies."""
        return self.root / "working"

    @property
    def temporary(self) -> Path:
        """Temporary files of Python and the JVM, which a killed process leaves behind."""
        return self.root / "temporary"

    def progress(self, role: str) -> Path:
        """What a process reports, one JSON document a line."""
        return self.root / f"{role}.progress.jsonl"

    def log(self, role: str) -> Path:
        """All that a process and its JVM print."""
        return self.root / f"{role}.log"

    def error(self, role: str) -> Path:
        """The error of this package that a process ended with, as a JSON document."""
        return self.root / f"{role}.error.json"

    def arrive(self, count: int | None = None) -> int:
        """Let the next ``count`` event files arrive, all of them without it; how many did."""
        waiting = sorted(self.generated.glob("*.parquet"))[:count]
        for path in waiting:
            path.rename(self.events / path.name)
        return len(waiting)

    @property
    def _options(self) -> Path:
        return self.root / "demo.json"
