"""A query's place whose checkpoint is a bucket: a life in it, on a machine that may be lost."""

import json
import shutil
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

from statemigrate.embedded.layout import Layout
from support.histories.commands import from_json, to_json
from support.histories.lives import Deployment, look_at, run_at
from support.histories.model import Model
from support.object_store import MemoryFiles, ObjectStore

STORES = ("lists", "notes")
OLD = Deployment(STORES, "base", partitions=2, snapshot_every=2, retain=2)
NEW = replace(OLD, revision="r1", chunk=3)


@dataclass
class Place:
    """A bucket, a machine, the model of what is committed, and the input."""

    root: Path
    store: ObjectStore
    model: Model
    version: int = -1
    machine: int = 0

    def feed(self, *batches):
        folder = self.root / "input"
        folder.mkdir(parents=True, exist_ok=True)
        (self.root / "output").mkdir(exist_ok=True)
        for batch in batches:
            (folder / str(len(list(folder.iterdir())))).write_text(json.dumps(to_json(batch)))

    def layout(self):
        return Layout(self.root / "working" / "mirror", MemoryFiles(self.store))

    def run(self, deployment=NEW):
        (self.root / "working").mkdir(exist_ok=True)
        run_at(self.layout(), self.root, deployment)

    def outputs(self):
        return [path.name for path in (self.root / "output").iterdir()]

    def lose_machine(self):
        shutil.rmtree(self.root / "working", ignore_errors=True)

    def compare(self, deployment=NEW):
        """What is committed is what the model says, from the bucket alone."""
        commits = MemoryFiles(self.store).list("commits")
        committed = max((int(each.base_name) for each in commits), default=-1)
        for batch in range(self.version + 1, committed + 1):
            rows = from_json(json.loads((self.root / "input" / str(batch)).read_text()))
            self.model.batch(rows, deployment.revision, STORES)
            self.model.may_migrate(STORES, deployment.revision)
        self.version = committed
        if committed >= 0:
            self.machine += 1
            where = self.root / f"machine-{self.machine}"
            entries = look_at(self.layout(), str(where))["entries"]
            shutil.rmtree(where)
            assert self.model.found([tuple(each) for each in entries]) == []
            assert len(entries) >= 12

    def copied(self, root):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root)
        store = ObjectStore(
            objects=deepcopy(self.store.objects), requests=list(self.store.requests)
        )
        return Place(root, store, self.model.copied(), self.version)

    def requests_from_here(self):
        return len(self.store.requests)
