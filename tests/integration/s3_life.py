"""One life of a query, a rewrite or a fork of a checkpoint in a bucket: ``s3_life.py JSON``.

It writes a file ``ready`` as soon as Spark runs, what the sink gets to ``out``, a file a batch, and
at its end all of the state to ``state.json``; of a command what it answered to ``answer.json``.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

# The shared modules' folders are on PYTHONPATH.
from control_pipeline import ControlPipeline
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pipelines import Pipeline
from systems.sessions import session, settings
from tally import AmountsTally, CentsTally

from statemigrate import RewriteOptions, backfill, fork, migrated, rewrite
from statemigrate.commands.rewrite import verify
from statemigrate.errors import RewriteError
from statemigrate.files import hadoop_failures as reaching
from statemigrate.files.open import open_files

PIPELINES = {"embedded": Pipeline, "native": ControlPipeline, "paged": TallyPages}
KEYS_PER_CHUNK = 12


COMMANDS = ("rewrite", "fork")


def main(told: dict[str, Any]) -> None:
    """Start Spark, and do what is told."""
    # A machine that is busy with other tests loads the connector's classes for a while.
    reaching.ANSWER_TIMEOUT = 120.0
    root = Path(told["root"])
    spark = session(settings(root / "warehouse", map(Path, told["jars"]), told["conf"]))
    (root / "ready").touch()
    live(spark, told)


def live(spark: Any, told: dict[str, Any]) -> None:
    """Do what is told, until there is nothing left to do."""
    root = Path(told["root"])
    work = _command if told["revision"] in COMMANDS else _query
    _write(root / "state.json", work(spark, root, told))


def _command(spark: Any, root: Path, told: dict[str, Any]) -> Any:
    """The state of the new checkpoint; None where the directory is to be removed first."""
    verb, old, new = told["revision"], told["checkpoint"], told["target"]
    answer = "made"
    try:
        if verb == "fork":
            fork(old, new)
        else:
            scripts = told["migrations"] if told["with_scripts"] else None
            options = RewriteOptions(partitions=told["partitions"])
            rewrite(old, new, options=options, migrations=scripts, apply=True, spark=spark)
    except RewriteError as error:
        answer = error.data.get("contents", "other")
        if answer == "other":
            raise
    if verb == "rewrite":
        problems = verify(old, new, migrations=told["migrations"], spark=spark).problems
        assert problems == (), problems
    _write(root / "answer.json", answer)
    _mend(told)
    if answer == "unfinished":
        return None
    return NativePipeline(spark, root, checkpoint_directory=new).all_state()


def _query(spark: Any, root: Path, told: dict[str, Any]) -> Any:
    engine, folder, place = told["engine"], told["migrations"], told["checkpoint"]
    pipeline = PIPELINES[engine](spark, root, checkpoint_directory=place)
    pipeline.sink = _sink(root / "out", told["revision"])
    if told["revision"] == "base":
        code: Any = CentsTally()
    elif engine == "native":
        if open_files(place, spark).list("commits"):
            backfill(place, migrations=folder, keys_per_chunk=KEYS_PER_CHUNK, spark=spark)
        code = migrated(AmountsTally(), migrations=folder, checkpoint=place)
    else:
        code = migrated(AmountsTally(), migrations=folder)
    if engine == "embedded":
        pipeline.deploy(code, snapshot_every=3, retain=3)
        _mend(told)
        return pipeline.stored()
    pipeline.deploy_natively(code)
    _mend(told)
    return pipeline.all_state()


def _mend(told: dict[str, Any]) -> None:
    """No more faults: what is left is to look at what there is."""
    url = f"{told['conf']['spark.hadoop.fs.s3a.endpoint']}/-/faults"
    asked = urllib.request.Request(url, data=b"{}", method="PUT")  # noqa: S310
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - this machine's own
        answer.read()


def _sink(folder: Path, revision: str) -> Any:
    folder.mkdir(exist_ok=True)

    def take(rows: Any, batch: int) -> None:
        found = [tuple(row) for row in rows.collect()]
        _write(folder / f"{batch}.json", {"revision": revision, "rows": found})

    return take


def _write(path: Path, found: Any) -> None:
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(found, default=str, sort_keys=True), encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    # Threads of a connector may wait for a store that does not answer.
    sys.stdout.flush()
    os._exit(0)
