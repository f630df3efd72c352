"""Which operators are copied: those of which every byte of their state may stay as it is."""

from dataclasses import replace

import pytest
from rewrite_shapes import aggregation, buffers, checkpoint, operator, struct
from support.object_store import MemoryFiles

from statemigrate.checkpoint.logs.entries import PROVIDER, ROCKSDB_PROVIDER, CommitEntry
from statemigrate.rewrite.operator import copied_operators
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.rewrite_plan import make_plan
from statemigrate.rewrite.sources import RewriteOptions

KEY = struct("k STRING")
VALUE = buffers(("sum", "long"), ("sum", "long"))
SWAPPED = (("sum", "sum_2"), ("sum_2", "sum"))
OLD = checkpoint(aggregation(KEY, VALUE))
NAMES = [f"state/0/{partition}/5.snapshot" for partition in range(2)]


@pytest.fixture
def files():
    found = MemoryFiles()
    for number in (0, 1):
        for name in NAMES:
            found.put(name.replace("state/0", f"state/{number}"), name.encode())
    return found


def kept(files, target=None, old=OLD, **said):
    options = RewriteOptions(**{k: v for k, v in said.items() if k != "answers"})
    return copied_operators(make_plan(old, target, options, said.get("answers")), files)


def test_state_in_which_nothing_changes_is_copied_under_its_names(files):
    (copies,) = kept(files, watermark=5).values()
    assert copies.names == {name: name for name in NAMES}
    new = MemoryFiles()
    copies.put(new)
    assert {each.name: new.get(each.name) for each in new.list(recursive=True)} == {
        name: name.encode() for name in NAMES
    }


def test_an_operator_with_another_number_is_copied_to_it(files):
    distinct = operator("dedupe", KEY, struct("x INT"))
    old = checkpoint(distinct, aggregation(KEY, VALUE, 1))
    answers = RewriteAnswers(frozenset({"deduplicate-0"}), by_name=True)
    found = kept(files, [aggregation(KEY, VALUE)], old, answers=answers)
    before = [name.replace("state/0", "state/1") for name in NAMES]
    assert found[0].names == dict(zip(before, NAMES, strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        {"partitions": 3},
        {"conf": {PROVIDER: ROCKSDB_PROVIDER}},
        {"conf": {"spark.sql.streaming.stateStore.compression.codec": "zstd"}},
        {"conf": {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}},
        {"target": [aggregation(KEY, buffers(("sum", "long"), ("count", "long")))]},
        {"target": [aggregation(struct("k STRING, n INT"), VALUE)], "key": "k STRING, n SMALLINT"},
        # The types stay, and yet each sum becomes the other.
        {"answers": RewriteAnswers(take={f"aggregation-0.{a}": b for a, b in SWAPPED})},
    ],
    ids=str,
)
def test_whatever_changes_its_bytes_is_written(files, changed):
    old = OLD
    if "key" in changed:
        old = checkpoint(aggregation(struct(changed["key"]), VALUE))
    said = {name: each for name, each in changed.items() if name != "key"}
    assert kept(files, old=old, **said) == {}


def test_files_with_ids_are_written(files):
    ids = {0: (("a",), ("b",))}
    commits = {3: OLD.commits[3], 4: CommitEntry(0, version=2, state_ids=ids)}
    assert kept(files, old=replace(OLD, commits=commits)) == {}


def test_what_is_asked_for_and_is_so_already_changes_nothing(files):
    assert kept(files, partitions=2) != {}
    assert kept(files, [aggregation(KEY, VALUE)]) != {}
