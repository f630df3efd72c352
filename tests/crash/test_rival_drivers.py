"""Rival drivers and commands on one checkpoint, interleaved at every file operation.

Of each order one of them goes on, the others say why they do not, and the contents are those of a
model. `support.rivals.scenes` has what they do and what is compared.
"""

from unittest.mock import patch

import pytest
from support.object_store import MemoryFiles
from support.rivals.book import Book
from support.rivals.commands import Adoption
from support.rivals.scenes import (
    EmbeddedStarts,
    Epochs,
    NativeStarts,
    PagedStarts,
    Rewrites,
    WrongError,
)
from support.rivals.scheduler import Drawn, Given, Rivals, every_schedule

from statemigrate.checkpoint.epochs import Epoch, Fence
from statemigrate.checkpoint.logs.offsets import SourceLog


@pytest.fixture(scope="module")
def book(places):
    return Book(places / "rivals")


def test_two_starts_leave_what_the_last_one_leaves_however_they_are_interrupted():
    assert sum(1 for _ in every_schedule(Epochs(2).play, interruptions=3)) > 200


@pytest.mark.long
def test_every_order_of_two_starts_leaves_what_the_last_one_leaves():
    assert sum(1 for _ in every_schedule(Epochs(2).play)) > 1_000


@pytest.mark.long
def test_every_order_with_few_interruptions_of_two_starts_on_spark_s_own_state_has_one_winner():
    assert sum(1 for _ in every_schedule(NativeStarts().play, interruptions=2)) > 300


def test_every_order_with_one_interruption_of_two_starts_on_pages_has_one_winner():
    """None of them waits for the other: a start locks nothing of its process while it reads."""
    assert sum(1 for _ in every_schedule(PagedStarts().play, interruptions=1)) > 30


def test_every_order_with_few_interruptions_of_two_rewrites_has_one_winner(tmp_path):
    assert sum(1 for _ in every_schedule(Rewrites(tmp_path).play, interruptions=1)) > 40


def test_an_adoption_of_a_query_that_runs_after_all_is_finished_by_the_next_one(tmp_path):
    assert sum(1 for _ in every_schedule(Adoption(tmp_path).play, interruptions=1)) > 60


def test_a_start_that_another_one_runs_past_is_not_told_to_restore_the_checkpoint(places):
    """It looks at files of several moments; that another query goes on is all that is wrong."""
    scene = EmbeddedStarts(places / "run-past", batches=2)
    for operations in (*range(1, 10), *range(18, 24)):
        scene.play(Given((*[1] * operations, 0)))


@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 64), marks=pytest.mark.long)], ids=str
)
def test_rivals_at_random(book, seeds):
    """As many as there is time for; `make soak ENGINE=rivals` goes on."""
    assert sum(book.play(seed).refused for seed in seeds) > len(seeds) * 20 / 64


@pytest.mark.long
def test_every_order_with_one_interruption_of_two_embedded_starts_has_one_winner(places):
    for command in (False, True):
        scene = EmbeddedStarts(places / f"embedded-{command}", command=command)
        assert sum(1 for _ in every_schedule(scene.play, interruptions=1)) > 60


def test_a_seed_repeats_the_order_of_every_operation(book):
    for seed in range(100, 100 + len(book.scenes)):
        first, second = (book.play(seed) for _ in range(2))
        assert first.operations == second.operations
        assert len({each.driver for each in first.operations}) > 1


def look_at_nothing(*_, **__):
    """In the place of a comparison of epochs."""


def write_over(files, name, data):
    """In the place of making a file only if it is not there."""
    files.replace(name, data)


def leave_at_once(epoch):
    """In the place of looking again once a document is written."""
    for name, text in epoch.leaves.items():
        epoch.files.replace(name, text.encode())


def is_taken(log, name):
    """In the place of waiting for the commit of the batch that has taken a chunk."""
    return name in log.taken


@pytest.mark.long(weight=1 / 10)
@pytest.mark.parametrize(
    ("scene", "owner", "name", "fault"),
    [
        pytest.param("embedded", Epoch, "require_newest", look_at_nothing, id="embedded"),
        pytest.param("command", Epoch, "require_newest", look_at_nothing, id="command"),
        pytest.param("native", Fence, "_look", look_at_nothing, id="native"),
        pytest.param("native", Epoch, "leave", leave_at_once, id="record"),
        pytest.param("epochs", MemoryFiles, "create", write_over, id="create"),
        pytest.param("rewrites", MemoryFiles, "create", write_over, id="create of a claim"),
        pytest.param("chunks", SourceLog, "is_committed", is_taken, id="chunks"),
    ],
)
def test_what_is_left_out_of_a_fence_is_found_and_its_seed_finds_it_again(
    places, scene, owner, name, fault
):
    short = Book(places / f"faults-{scene}", [scene])
    with patch.object(owner, name, fault):
        seed = next(seed for seed in range(500) if is_wrong(short, seed))
        with pytest.raises(WrongError, match=f"SEED={seed} ") as first:
            short.play(seed)
        with pytest.raises(WrongError) as second:
            short.play(seed)
        assert str(first.value).split("in this order") == str(second.value).split("in this order")
    assert short.play(seed).operations


def is_wrong(book, seed):
    try:
        book.play(seed)
    except WrongError:
        return True
    return False


def test_schedules_are_all_there_are_and_none_twice():
    """Two drivers of two and three operations: each order of the five once."""

    class Counting:
        def play(self, choices):
            files = MemoryFiles()
            rivals = Rivals(files, choices)
            mine = [rivals.files(0), rivals.files(1)]
            rivals.run(
                lambda: [mine[0].put(f"a{n}", b"") for n in range(2)],
                lambda: [mine[1].put(f"b{n}", b"") for n in range(3)],
            )
            orders.append(tuple(str(each) for each in rivals.operations))
            return rivals

    orders = []
    played = list(every_schedule(Counting().play))
    assert len(set(orders)) == 10
    assert len(played) == len({tuple(who for _, _, who in each.made) for each in played})
    assert Given().choose(None, (0, 1)) == 0
    assert {Drawn(seed).choose(0, (0, 1)) for seed in range(20)} == {0, 1}
