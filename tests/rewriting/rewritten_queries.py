"""A query fed file by file, deployed with one code and then with another on a new checkpoint."""

from __future__ import annotations

from collections import Counter

from fed_queries import DDL, Feed, late_batch, moment, rows_of, run

from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.commands.new_code import NewCode
from statemigrate.commands.rewrite import rewrite_checkpoint
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.sources import RewriteOptions

__all__ = [
    "DDL",
    "PROVIDER",
    "PROVIDERS",
    "Feed",
    "NewCode",
    "accepting",
    "late_batch",
    "moment",
    "raw_state",
    "rewrite_checkpoint",
    "rewritten",
    "rows_of",
    "run",
    "run_once",
    "scripts_in",
    "session_with",
]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def session_with(spark, provider, **conf):
    """One of its own settings."""
    session = spark.newSession()
    session.conf.set(PROVIDER, PROVIDERS[provider].class_name)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, value in conf.items():
        session.conf.set(name, value)
    return session


def rewritten(
    spark,
    old,
    new,
    code=None,
    *,
    before=None,
    answers=None,
    apply=True,
    inputs=None,
    migrations=None,
    **options,
):
    """Rewrite for a function of the tests, whose stream has rows of `DDL` unless said.

    ``before`` is the function of the old code, where its aggregate functions go on.
    """
    target = NewCode()
    if code is not None:
        was = None if before is None else _named(before)
        target = NewCode(_named(code), inputs or {"events": DDL}, old_code=was)
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


def _named(code):
    return f"{code.__module__}:{code.__qualname__}"


def accepting(*names, **answers):
    """Take what was proposed under these names."""
    return RewriteAnswers(frozenset(names), by_name=True, **answers)


def run_once(spark, feed, code, checkpoint, mode="update"):
    """Run ``code`` for one batch of all that is fed; return its rows.

    Queries with time in processing time never end by themselves.
    """
    given: list[str] = []

    def collect(rows, batch):
        given.extend(map(str, rows.collect()))

    writer = code(feed.stream(spark)).writeStream.outputMode(mode).foreachBatch(collect)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
    query.awaitTermination(180)
    assert not query.isActive
    return Counter(given)


def raw_state(spark, checkpoint, **options):
    """Every row of RocksDB's, as bytes, with the name of its family."""
    reader = spark.read.format("statestore").option("_readAllColumnFamilies", True)
    rows = reader.options(**options).load(str(checkpoint)).collect()
    return sorted(
        (row.column_family_name, bytes(row.key_bytes), bytes(row.value_bytes)) for row in rows
    )


def scripts_in(folder, **texts):
    """A folder of migration scripts, one for each name; returns where it is."""
    from statemigrate.scripts import ScriptFolder

    made = ScriptFolder.create(folder)
    for number, (name, text) in enumerate(texts.items(), 1):
        head = (
            f'"""What becomes of {name}."""\n\nfrom statemigrate.formats import Struct\n\n'
            f'revision = "aaaa{number:08d}"\ndown_revision = None\n'
        )
        (made.versions / f"{name}.py").write_text(head + text)
    return made.directory
