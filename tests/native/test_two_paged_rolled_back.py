"""Two operators on pages go back to older revisions one by one, and are paced one by one."""

import pytest
from support.waiting import eventually
from tally import AMOUNTS, NESTED, NESTED_DDL, NESTED_SCRIPT
from two_paged import SEEN, Counts, Model, NewCounts, NewTally, Tally, TwoPaged, write_scripts

from statemigrate import (
    backfill,
    backfill_status,
    migrated,
    open_state,
    pause_backfill,
    rollback,
    status,
)
from statemigrate.errors import StartupError
from statemigrate.native.chunks import ChunkFiles

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS, NAMES = 16, 5


def rows(numbers):
    return [(f"k{number}", 3 * number + 7, f"n{number % NAMES}") for number in numbers]


class Nested(NewTally):
    """The tally in its third format."""

    ddl = NESTED_DDL

    def read(self, found):
        if found is None:
            return 0, 0, None, 0
        sums, last, moved = found
        return sums.n, int(sums.amount.scaleb(2)), last[0], moved

    def made(self, n, cents, last, moved):
        n, amount, last, moved = super().made(n, cents, last, moved)
        return (n, amount), [last], moved


def with_nested(scripts):
    folder = write_scripts(scripts)
    (folder / "versions" / "nested.py").write_text(f'"""Change nested."""\n{NESTED_SCRIPT}')
    return folder


CODES = {
    "tally": {"base": Tally, AMOUNTS: NewTally, NESTED: Nested},
    "counts": {"base": Counts, SEEN: NewCounts},
}


class Deployments:
    """A query of both, whose code is for a revision each."""

    def __init__(self, query, folder):
        self.query, self.folder, self.at = query, folder, {"tally": "base", "counts": "base"}

    def made(self):
        return tuple(
            migrated(CODES[store][at](), migrations=self.folder, targets={store: at})
            for store, at in self.at.items()
        )

    def deploy(self, **at):
        self.at |= at
        self.query.deploy_natively(self.made())

    def drained(self, operator, store):
        """A backfill of an operator, and a run that takes it."""
        options = {"migrations": self.folder, "operator": operator}
        backfill(
            self.query.checkpoint, keys_per_chunk=2, targets={store: self.at[store]}, **options
        )
        self.deploy()


def test_each_goes_back_by_its_name_to_a_revision_and_to_the_oldest(spark, scripts, tmp_path):
    model, folder = Model(), with_nested(scripts)
    query = TwoPaged(spark, tmp_path / "two")
    code = Deployments(query, folder)
    query.feed(model.add(rows(range(KEYS))))
    code.deploy()
    query.feed(model.add(rows([1])))
    code.deploy(tally=NESTED, counts=SEEN)
    code.drained("tallies", "tally")
    code.drained("counts", "counts")
    names = {"tally": "tallies", "counts": "counts"}

    def back(to, store, **options):
        return rollback(
            query.checkpoint, to, migrations=folder, operator=names[store], spark=spark, **options
        )

    with pytest.raises(StartupError, match="pages") as caught:
        back("base", "counts", undo=True)
    assert caught.value.code == "SM-ROLLBACK-005"
    assert "without --undo" in str(caught.value)
    found = back(AMOUNTS, "tally")
    assert (found.step, found.left, [each.store for each in found.stores]) == (
        "deploy", KEYS, ["tally"]
    )  # fmt: skip
    assert found.next_action.endswith(f"--to {AMOUNTS} --operator tallies`")
    # A deployment is known by its first batch.
    query.feed(model.add(rows([3])))
    code.deploy(tally=AMOUNTS)
    found = back(AMOUNTS, "tally", apply=True)
    assert (found.step, len(found.did)) == ("drain", 1)
    assert not ChunkFiles(query.checkpoint, "counts").uncut()
    code.deploy()
    assert back(AMOUNTS, "tally").left == 0
    code.deploy()
    assert back(AMOUNTS, "tally").is_done
    # Up by 1 and by 10, and down by 1000.
    assert rolled(query, folder, "tallies", AMOUNTS) == model.new_tallies(lambda _: 1011)
    assert query.values("counts", folder, "counts") == model.new_counts()
    # The other one, while rows come.
    query.feed(model.add(rows([2])))
    code.deploy(counts="base")
    found = back("base", "counts")
    assert found.step in ("backfill", "deploy", "done")
    if found.left:
        back("base", "counts", apply=True)
        code.deploy()
    code.deploy()
    assert back("base", "counts").is_done
    (store,) = status(
        query.checkpoint, migrations=folder, targets={"counts": "base"}, operator="counts"
    ).stores
    assert (store.left, store.in_target, store.target) == (0, NAMES, "base")
    assert rolled(query, folder, "counts", "base") == model.old_counts()


def rolled(query, folder, operator, revision):
    """The store of an operator at the revision that it has gone back to."""
    store = {"tallies": "tally", "counts": "counts"}[operator]
    options = {"migrations": folder, "targets": {store: revision}, "operator": operator}
    with open_state(query.checkpoint, spark=query.spark, **options) as state:
        return {key[0]: value for key, value in state[store].entries()}


def test_both_are_backfilled_at_paces_of_their_own_beside_live_rows(
    spark, scripts, tmp_path, monkeypatch
):
    from statemigrate.native import pacing

    begin = pacing.BackfillOptions
    monkeypatch.setattr(pacing, "BackfillOptions", lambda **given: begin(initial_rows=4, **given))
    model, folder = Model(), write_scripts(scripts)
    query = TwoPaged(spark, tmp_path / "paced", names=(None, "counts"), numbers=(6, 3))
    query.feed(model.add(rows(range(KEYS))))
    query.deploy_natively((Tally(), Counts()))
    code = migrated(NewTally(), migrations=folder), migrated(NewCounts(), migrations=folder)
    named = {"migrations": folder}
    plan = backfill(query.checkpoint, share=0.5, operator="", **named)
    assert plan.keys == KEYS
    assert backfill(query.checkpoint, keys_per_second=1e6, operator="counts", **named).keys == NAMES
    assert pause_backfill(query.checkpoint, operator="counts") == 1
    assert not ChunkFiles(query.checkpoint, "counts").uncut()
    assert ChunkFiles(query.checkpoint, "").uncut()
    assert backfill(query.checkpoint, keys_per_second=1e6, operator="counts", **named).keys == NAMES
    for number in range(2):
        query.feed(model.add(rows([number, number + 1])))
    running = query.start(query.result(code))
    try:
        eventually(lambda: is_done(query, running))
    finally:
        running.stop()
    for operator in ("", "counts"):
        found = backfill_status(query.checkpoint, operator=operator, **named)
        assert (found.keys_left, found.keys_uncut, found.waiting) == (0, 0, 0)
        assert found.is_finished
    assert query.values("tally", folder, "") == model.new_tallies()
    assert query.values("counts", folder, "counts") == model.new_counts()


def is_done(query, running):
    if running.exception() is not None:
        raise running.exception()
    for operator in ("", "counts"):
        files = ChunkFiles(query.checkpoint, operator)
        log = files.log()
        if files.uncut() or not all(map(log.is_committed, files.written())):
            return False
    return True
