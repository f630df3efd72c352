"""What a user is told who needs another checkpoint: a rewrite makes it, and nothing is lost."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from statemigrate.errors import CheckpointError, PageError, StartupError, UnsupportedError
from statemigrate.native.deployment_check import ObservedCheckpoint
from statemigrate.native.functions import Envelope
from statemigrate.pages import deployed_pages as handle
from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page


def test_a_state_without_an_envelope_is_rewritten():
    group = Mock(exists=True, get=(1, 2, 3))
    with pytest.raises(CheckpointError) as raised:
        Envelope().open(group, ("a",))
    assert "`statemigrate rewrite CHECKPOINT NEW --code " in raised.value.next_action


def test_a_page_that_is_too_large_is_told_the_way_to_more_pages(monkeypatch):
    monkeypatch.setattr("statemigrate.pages.page.LARGEST", 3)
    page = Page(PageId(4, 1, b"12345678"), None)
    page.section("tally", b"12345678").put(b"key", b"value")
    with pytest.raises(PageError) as raised:
        page.written()
    assert "`statemigrate rewrite CHECKPOINT NEW --pages 8 --apply`" in raised.value.next_action


def test_another_time_mode_of_pages_is_planned():
    for refused in (
        lambda: handle._check_life("s", 5, "none"),
        lambda: _raise(handle._no_timers()),
    ):
        with pytest.raises(UnsupportedError) as raised:
            refused()
        assert "`statemigrate plan CHECKPOINT --code" in raised.value.next_action


def _raise(error):
    raise error


@pytest.mark.parametrize("function", ["migrated", "paged"])
def test_a_wrong_checkpoint_is_corrected_where_it_was_given(tmp_path, function):
    seen = ObservedCheckpoint.at(str(tmp_path / "none"), of=function)
    with pytest.raises(StartupError) as raised:
        seen.compare_at_start()
    assert f"correct checkpoint= of {function}:" in raised.value.next_action
    assert function in seen.outdated(3).next_action
    assert not (tmp_path / "none").exists()
