"""A query fed file by file, deployed with one code and then with another on a new checkpoint."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from statemigrate.commands.rewriting.rewrite import NewCode, rewrite_checkpoint
from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
from statemigrate.rewrite.plan.options import PROVIDERS, RewriteOptions

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
DDL = "k STRING, region STRING, v BIGINT, at TIMESTAMP"


class Feed:
    """A folder with one JSON file for each batch."""

    def __init__(self, folder: Path, ddl: str = DDL) -> None:
        self.folder = folder
        self.ddl = ddl
        folder.mkdir(parents=True)

    def add(self, *batches):
        for rows in batches:
            number = len(list(self.folder.iterdir()))
            path = self.folder / f"{number:04d}.json"
            hidden = self.folder / f".{number}"
            hidden.write_text("\n".join(json.dumps(row) for row in rows))
            # Spark takes the oldest file first.
            os.utime(hidden, (1_700_000_000 + number,) * 2)
            hidden.rename(path)

    def stream(self, spark):
        reader = spark.readStream.schema(self.ddl).option("maxFilesPerTrigger", 1)
        return reader.json(f"{self.folder}/*.json")


def rows_of(*rows):
    """Rows of `DDL` from tuples (k, v), or (k, v, second of the event time)."""
    return [
        {"k": row[0], "region": f"r{row[1] % 3}", "v": row[1], "at": moment(row[2])}
        if len(row) > 2
        else {"k": row[0], "region": f"r{row[1] % 3}", "v": row[1]}
        for row in rows
    ]


def moment(second):
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def session_with(spark, provider, **conf):
    """One of its own settings."""
    session = spark.newSession()
    session.conf.set(PROVIDER, PROVIDERS[provider])
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, value in conf.items():
        session.conf.set(name, value)
    return session


def run(spark, feeds, code, checkpoint, mode="update"):
    """Run ``code`` on all that is fed; return the rows of each batch that was not run before."""
    feeds = feeds if isinstance(feeds, list) else [feeds]
    given: dict[int, Counter] = {}

    def collect(rows, batch):
        given[batch] = Counter(str(row) for row in rows.collect())

    result = code(*[feed.stream(spark) for feed in feeds])
    writer = result.writeStream.outputMode(mode).foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(180)
    assert not query.isActive
    return given


def rewritten(
    spark, old, new, code=None, *, answers=None, apply=True, inputs=None, migrations=None, **options
):
    """Rewrite for a function of the tests, whose stream has rows of `DDL` unless said."""
    target = NewCode()
    if code is not None:
        named = f"{code.__module__}:{code.__qualname__}"
        target = NewCode(named, inputs or {"events": DDL})
    return rewrite_checkpoint(
        old,
        new,
        target=target,
        options=RewriteOptions(**options),
        answers=answers,
        migrations=migrations,
        apply=apply,
        spark=spark,
    )


def accepting(*names, **answers):
    """Take what was proposed under these names."""
    return RewriteAnswers(frozenset(names), **answers)
