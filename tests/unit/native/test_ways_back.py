"""Adopting, migrating, going back and undoing in every order, on a simulated query without Spark.

`make soak ENGINE=ways_back` goes on with more histories.
"""

from dataclasses import replace

import pytest
from support.ways_back import MIDDLE, Command, Figures, Ways, WrongError, failure_of, play, ways

from statemigrate.native import adoption as commands
from statemigrate.native.listing import Listing
from statemigrate.native.startup_stored import _StoredFamilies

HISTORIES = 16
BOTH = (("k0", "k1"),)
PLAIN, NEWER = Command("plain", batches=BOTH), Command("migrated", MIDDLE, (("k0",),), control=True)
UNDO = Command("undo")
STORY = Ways(False, (PLAIN, Command("adopt"), NEWER, UNDO, PLAIN))


def test_no_order_of_commands_loses_a_value_without_a_refusal(tmp_path):
    figures = Figures()
    for seed in range(HISTORIES):
        play(tmp_path / "history", ways(seed), figures)
    assert min(vars(figures).values()) > 0, figures


@pytest.mark.parametrize("named", [False, True])
def test_undoing_that_does_not_look_is_found(tmp_path, monkeypatch, named):
    story = replace(STORY, named=named)
    assert failure_of(tmp_path / "history", story) is None
    monkeypatch.setattr(commands, "check_older_code", lambda *_: None)
    with pytest.raises(WrongError, match="with 1 values in newer families"):
        play(tmp_path / "history", story)


def test_forgetting_that_is_only_looked_for_in_metadata_is_found(tmp_path, monkeypatch):
    """Spark removes the metadata of older runs while the values stay, and come back stale."""
    many = replace(PLAIN, batches=BOTH * 4)
    story = Ways(True, (PLAIN, NEWER, many, many, replace(NEWER, control=False)))
    assert failure_of(tmp_path / "history", story) is None
    monkeypatch.setattr(_StoredFamilies, "_unmentioned", lambda *_: {})
    with pytest.raises(WrongError, match="started where values were forgotten"):
        play(tmp_path / "history", story)


def test_a_start_that_failed_hides_no_forgetting(tmp_path, monkeypatch):
    """A record of marked code that ran no batch: what plain code forgets then is missed too."""
    failed = replace(NEWER, fails=True)
    story = Ways(True, (PLAIN, NEWER, failed, PLAIN, NEWER))
    assert failure_of(tmp_path / "history", story) is None
    monkeypatch.setattr(Listing, "missing_since", lambda *_: {})
    with pytest.raises(WrongError, match="started where values were forgotten"):
        play(tmp_path / "history", story)


@pytest.mark.parametrize("batches", [1, 2, 7])
def test_plain_code_that_is_killed_in_its_first_batch_forgets_nothing(
    tmp_path, monkeypatch, batches
):
    """Its metadata stay, and marked code that runs the batch again is not listed in their place."""
    killed = Command("plain", batches=(("k2",),), kill=True)
    back = Command("migrated", "base", (("k3",),) * batches)
    newer = Command("migrated", MIDDLE, (("k0",),))
    story = Ways(False, (PLAIN, newer, killed, back, newer))
    assert failure_of(tmp_path / "history", story) is None
    forgets = Ways(False, (PLAIN, newer, killed, back, PLAIN, newer))
    assert failure_of(tmp_path / "history", forgets) is None
    monkeypatch.setattr(Listing, "began_before", lambda *_: False)
    with pytest.raises(WrongError, match="refused without a reason"):
        play(tmp_path / "history", story)


def test_a_history_says_how_to_repeat_it():
    assert ways(7) == ways(7)
    assert eval(repr(ways(7))) == ways(7)  # noqa: S307 - what this test has made itself
