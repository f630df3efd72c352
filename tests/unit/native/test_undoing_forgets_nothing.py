"""Code without the backfill source declares the oldest families: undoing looks at all others."""

import json

import pytest
from support.offset_logs import checkpoint, kill_last_batch, put, tree

from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.native.adoption import adopt, undo_adoption
from statemigrate.native.deployment_check import RECORD, StoreRecord, read_record, write_record

NEWER = "totals@aaaa11112222"


class Counting:
    """In place of Spark's reader: what each family holds, and what was asked."""

    def __init__(self, **values):
        self.values = {name.replace("_at_", "@"): count for name, count in values.items()}
        self.asked = []

    def __call__(self, operator, batch, names):
        self.asked.append((operator, batch, tuple(names)))
        return {name: self.values[name] for name in names}


def lists(root, *variables, batch=0, schemas=()):
    """Have Spark list these variables from a batch on."""
    path = root / f"state/0/_metadata/v2/{batch}"
    version, text = (root / "state/0/_metadata/v2/0").read_text().split("\n")
    document = json.loads(text)
    properties = {"stateVariables": [{"stateName": each} for each in variables]}
    document["operatorPropertiesJson"] = json.dumps(properties)
    put(path, f"{version}\n{json.dumps(document)}")


def undo(root, count, **options):
    return undo_adoption(str(root), wait=0, count=count, **options)


@pytest.fixture
def root(tmp_path):
    root = checkpoint(tmp_path / "c")
    adopt(str(root), apply=True, wait=0)
    return root


@pytest.mark.parametrize("apply", [False, True])
def test_values_in_a_newer_family_are_named_and_nothing_is_changed(root, apply):
    lists(root, "totals", NEWER, "seen")
    before, count = tree(root), Counting(totals_at_aaaa11112222=10)
    with pytest.raises(CheckpointError) as refused:
        undo(root, count, apply=apply)
    assert refused.value.data == {"path": str(root), "batch": 2, "families": {NEWER: 10}}
    assert refused.value.found == f"10 of store totals at revision aaaa11112222 ({NEWER})"
    assert f"statemigrate rollback {root} --to base --undo" in refused.value.next_action
    assert count.asked == [(0, 2, (NEWER,))]
    assert tree(root) == before


def test_what_is_empty_is_undone_and_noted_as_read(root):
    lists(root, "totals", NEWER)
    write_record(str(root), {"totals": StoreRecord((NEWER, "totals"), 0, {"a": "b"}, "x")})
    count = Counting(totals_at_aaaa11112222=0)
    assert undo(root, count, apply=True).state == "undone"
    assert read_record(str(root)) == {"totals": StoreRecord(("totals",), 2, {"a": "b"})}


def test_nothing_is_read_where_no_newer_family_is_listed(root):
    lists(root, "totals", "seen")
    assert undo(root, count := Counting(), apply=True).state == "undone"
    assert count.asked == []
    assert not (root / RECORD).exists()


def test_a_batch_that_is_not_committed_does_not_count(root):
    lists(root, "totals", NEWER, batch=2)
    kill_last_batch(root)
    assert undo(root, count := Counting(), apply=True, stopped=True).state == "undone"
    assert count.asked == []


def test_code_that_declares_the_family_may_start_without_the_control_source(root):
    lists(root, "totals", NEWER, "totals@bbbb33334444")
    count = Counting(totals_at_aaaa11112222=1, totals_at_bbbb33334444=2)
    with pytest.raises(CheckpointError) as refused:
        undo(root, count, declared=[NEWER])
    assert refused.value.data["families"] == {"totals@bbbb33334444": 2}
    declared = [NEWER, "totals@bbbb33334444"]
    assert undo(root, count, declared=declared, apply=True).state == "undone"
    # Nobody has said that it is empty.
    assert not (root / RECORD).exists()


def test_what_cannot_be_read_is_no_empty_family(root):
    lists(root, "totals", NEWER)
    before = tree(root)

    def unreadable(operator, batch, names):
        raise CheckpointError("SM-CHECKPOINT-003", "the state cannot be read")

    with pytest.raises(CheckpointError, match="cannot be read"):
        undo(root, unreadable, apply=True)
    assert tree(root) == before


def test_a_family_of_which_spark_tells_nothing_any_more_is_no_empty_one(root):
    """Only the state's own files could tell, and they are missing here."""
    (root / "state/0/_metadata/v2/0").rename(root / "state/0/_metadata/v2/2")
    write_record(str(root), {"totals": StoreRecord((NEWER, "totals"), 0, {}, "x")})
    with pytest.raises(CorruptFileError):
        undo(root, Counting())


def test_sources_with_names_need_no_undoing_and_are_looked_at_all_the_same(root):
    for number in (1, 2):
        (root / "offsets" / str(number)).write_text('v2\n{}\nrows:{"logOffset":1}')
    lists(root, "totals", NEWER)
    with pytest.raises(CheckpointError, match="would forget 3 values"):
        undo(root, Counting(totals_at_aaaa11112222=3))
    done = undo(root, Counting(totals_at_aaaa11112222=0), apply=True)
    assert done.state == "nothing needed"
    assert read_record(str(root))["totals"].families == ("totals",)
