"""A query that has run over files, whose last batches a test previews."""

import json
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import previewed_code
from support.file_hashes import file_hashes

from statemigrate import NewCode, guarded, init, open_state, preview

SCHEMA = "k STRING, v BIGINT, id BIGINT, at TIMESTAMP"
BATCHES = 5


@dataclass
class Query:
    """A query that has run over files, one a batch: its checkpoint and the folders of its input."""

    spark: Any
    folder: Path
    function: Any
    mode: str
    count: int = 1
    batches: int = BATCHES
    trigger: str = "availableNow"
    is_guarded: bool = False

    def __post_init__(self):
        self.name, self.checkpoint = named(self.function), self.folder / "checkpoint"
        self.inputs = [self.folder / f"input-{number}" for number in range(self.count)]
        for number in range(self.batches):
            for place in self.inputs:
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{number}.json").write_text("\n".join(events(number)))
            self.run()

    def run(self):
        made = self.function(*map(self.stream, self.inputs))
        writer = made.writeStream.format("noop").outputMode(self.mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = guarded(writer) if self.is_guarded else writer
        query = writer.trigger(**{self.trigger: True}).start()
        assert query.awaitTermination(180)

    def stream(self, place):
        return self.spark.readStream.schema(SCHEMA).json(str(place))

    def preview(self, function, batches=3, old=True, migrations=None, place=None, **options):
        before = file_hashes(self.checkpoint)
        target = NewCode(named(function), mode=self.mode, old_code=self.name if old else None)
        found = preview(
            place or self.checkpoint,
            target=target,
            batches=None if place else batches,
            migrations=migrations,
            spark=self.spark,
            **options,
        )
        assert file_hashes(self.checkpoint) == before, "a preview writes nothing"
        return found

    def follow(self, function, batches, old, watch, place=None, **options):
        target = NewCode(named(function), mode=self.mode, old_code=self.name if old else None)
        return preview(
            place or self.checkpoint,
            target=target,
            batches=batches,
            migrations=None,
            spark=self.spark,
            watch=watch,
            **options,
        )

    def save(self, place, batches=3, **options):
        return preview(
            self.checkpoint,
            target=NewCode(self.name, mode=self.mode),
            save=place,
            batches=batches,
            migrations=None,
            spark=self.spark,
            **options,
        )


def damaged(checkpoint, place, count, partitions=(0,)):
    """A copy of the checkpoint whose newest states cannot be read in some partitions."""
    shutil.copytree(checkpoint, place)
    newest = open_state(place, migrations=None).batch
    batches = range(newest - count + 1, newest + 1)
    altered = 0
    for partition in partitions:
        for file in sorted((place / "state").glob(f"*/{partition}/**/*")):
            version = re.match(r"(\d+)[._]", file.name)
            if file.is_file() and version and int(version[1]) - 1 in batches:
                file.write_bytes(file.read_bytes()[:7])
                altered += 1
    assert altered
    return place


def scripts_of(code, folder, monkeypatch):
    """An empty folder of scripts, set in the code's module with the checkpoint next to it."""
    init(migrations=folder / "migrations")
    monkeypatch.setattr(code, "CHECKPOINT", str(folder / "checkpoint"))
    monkeypatch.setattr(code, "MIGRATIONS", str(folder / "migrations"))
    return folder / "migrations"


def write_means(scripts):
    """Write the script that `Means` needs."""
    (scripts / "versions" / "aaaa11112222_means.py").write_text(previewed_code.SCRIPT)


def events(batch):
    """The rows of a batch, some of them late, some twice."""
    drawn = random.Random(batch)
    for number in range(60):
        minute = max(0, batch - drawn.choice([0, 0, 0, 1, 3]))
        at = f"2026-01-01T00:{minute:02}:{number:02}Z"
        row = {"k": f"k{number % 7}", "v": number % 11, "id": 60 * batch + number, "at": at}
        yield json.dumps(row)


def named(function):
    return f"{function.__module__}:{function.__qualname__}"


def fields(found):
    """The fields that differ, by store, and the rows that only one side has."""
    every = {(store, name) for store, *_, changed in found.totals() for name in changed}
    return every | {
        (store, "_rows") for store, added, missing, *_ in found.totals() if added or missing
    }
