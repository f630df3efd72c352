"""A query of the embedded engine that has run over files, whose last batches a test previews."""

import json
import os
from pathlib import Path

import embedded_code as code
from previewed_query import SCHEMA, Query, events

import statemigrate.commands.preview_runs as runs
from statemigrate.embedded.changed_versions import contents_at
from statemigrate.files.open import open_files


class EmbeddedLife(Query):
    """A query of the embedded engine: all its batches run in one start, unless more are fed.

    ``rows`` are the lines of each batch.
    """

    def __init__(self, spark, folder, function, count=1, batches=5, rows=None):
        self.rows = [list(events(n)) for n in range(batches)] if rows is None else rows
        super().__init__(spark, folder, function, None, count, batches=0)
        for number in range(len(self.rows)):
            for place in self.inputs:
                place.mkdir(parents=True, exist_ok=True)
                self.write(place, number, self.rows[number])
        self.run()

    def write(self, place, number, lines):
        file = place / f"{number}.json"
        file.write_text("\n".join(lines))
        # Spark takes the oldest file first.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def feed(self, number, lines=None):
        """Run one more batch, by a start of its own."""
        self.rows.append(list(events(number)) if lines is None else lines)
        for place in self.inputs:
            self.write(place, number, self.rows[-1])
        self.run()

    def run(self):
        streams = [self.stream(each) for each in self.inputs]
        query = self.function(*streams).start(availableNow=True)
        assert query.awaitTermination(180)

    def stream(self, place):
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(place))

    def preview(self, *given, **options):
        handed = list(code.HANDED)
        found = super().preview(*given, **options)
        assert handed == code.HANDED, "the sink is never run"
        return found

    @property
    def newest(self):
        return max(int(each.name) for each in (self.checkpoint / "commits").glob("[0-9]*"))

    def contents(self, batch):
        """What the state after a batch holds, by its bytes."""
        return contents_at(open_files(str(self.checkpoint)), batch)


def replayed_contents(monkeypatch):
    """What each run of a preview leaves after each batch, by its bytes, as lists by run."""
    made, replay = [], runs.replay

    def noted(*given, **options):
        found = replay(*given, **options)
        files = open_files(found.checkpoint)
        made.append({each.number: contents_at(files, each.number) for each in found.batches})
        return found

    monkeypatch.setattr(runs, "replay", noted)
    return made


def totals_after(rows, batches, extra=lambda row, batch: 0):
    """What `Totals` has of each key after so many batches, computed here."""
    found = {}
    for batch, lines in enumerate(rows[:batches]):
        for row in map(json.loads, lines):
            n, total = found.get(row["k"], (0, 0))
            found[row["k"]] = (n + 1, total + row["v"] + extra(row, batch))
    return found


def files_below(folder):
    return sorted(each.relative_to(folder) for each in Path(folder).rglob("*") if each.is_file())
