"""State variables with other formats: a value widened, a list by a script, a map kept."""

import pytest
from rewritten_queries import NewCode, rewrite_checkpoint, rewritten, rows_of, run, session_with
from variables_code import variables, wider_variables

from statemigrate.commands.rewrite import verify
from statemigrate.rewrite import operator
from statemigrate.scripts import ScriptFolder

pytestmark = [pytest.mark.spark, pytest.mark.rewrites]

SCRIPT = '''"""What was said."""
from statemigrate.formats import Struct

revision = "aaaa00000001"
down_revision = None
branch_labels = ("last",)
store = "last"
old = Struct("v BIGINT")
new = Struct("v BIGINT, said STRING")


def upgrade(value):
    return {"v": value["v"], "said": f"was {value['v']}"}
'''


def stored(spark, feed, tmp_path):
    session = session_with(spark, "rocksdb")
    rows = [(f"k{n % 4}", n) for n in range(20)]
    feed.add(rows_of(*rows[:10]), rows_of(*rows[10:]))
    run(session, feed, variables, tmp_path / "old")
    return session


def test_a_list_is_upgraded_element_by_element_in_its_order(spark, feed, tmp_path):
    session = stored(spark, feed, tmp_path)
    folder = ScriptFolder.create(tmp_path / "migrations")
    (folder.versions / "said.py").write_text(SCRIPT)
    old, new = tmp_path / "old", tmp_path / "new"
    rewritten(spark, old, new, wider_variables, migrations=folder.directory, partitions=3)
    assert verify(old, new, spark=spark).problems == ()
    feed.add(rows_of(("k1", 0), ("k3", 0)))
    given = run(session, feed, wider_variables, new)
    assert {row for rows in given.values() for row in rows} == {
        f"Row(k='k{k}', n=5, last={str([(v, f'was {v}') for v in (k + 8, k + 12, k + 16)])!r}, "
        f"regions={str(regions_of(k))!r})"
        for k in (1, 3)
    }


def regions_of(k):
    found = [f"r{(k + n * 4) % 3}" for n in range(5)]
    return sorted((each, found.count(each)) for each in set(found))


def test_what_the_new_code_keeps_is_seen_in_a_checkpoint_of_its_own(spark, feed, tmp_path):
    session = stored(spark, feed, tmp_path)
    run(session, feed, variables, tmp_path / "probe")
    like = NewCode(like=tmp_path / "probe")
    made = rewrite_checkpoint(
        tmp_path / "old", tmp_path / "new", target=like, migrations=None, apply=True, spark=spark
    )
    assert [each.change for each in made.plan.operators] == ["kept"]


def test_where_only_the_driver_reaches_the_place_files_come_in_pieces(
    spark, feed, tmp_path, monkeypatch
):
    session = stored(spark, feed, tmp_path)
    old, new = tmp_path / "old", tmp_path / "new"
    monkeypatch.setattr(operator, "local_path", lambda place: None)
    rewritten(spark, old, new, partitions=3)
    assert verify(old, new, spark=spark).problems == ()
    feed.add(rows_of(("k1", 100)))
    assert run(session, feed, variables, new) == run(session, feed, variables, old)
