"""`check --code` sees what `migrated` was given: targets, and functions with their store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.inspect.script_check import check

CODE = """
from pyspark.sql.streaming import StatefulProcessor

from statemigrate import migrated


class Plain(StatefulProcessor):
    def init(self, handle):
        self.auction = handle.getValueState("auctions", "a BIGINT")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass


@migrated(migrations="m", targets={"auctions": "base"})
class Older(Plain):
    pass


@migrated(migrations="m", targets={"auctions": "zz", "bids": "base"})
class Astray(Plain):
    pass


checked = migrated(Plain(), migrations="m", targets={"auctions": "a1"}, checkpoint="nowhere")


def plain(key, rows, state):
    yield from ()


old = migrated(plain, store="auctions", migrations="m", targets={"auctions": "a1"})
astray = migrated(plain, store="auctions", migrations="m", targets={"auctions": "zz"})
unscripted = migrated(plain, store="clicks", migrations="m", checkpoint="nowhere")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """auctions: base and a1 have a, the head a2 has a and b. bids has a script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    script(Path("m"), "a1")
    wide = "return {**value, 'b': value['a'] and 1}"
    script(Path("m"), "a2", "a1", new='Struct("a BIGINT, b INT")', upgrade=wide)
    script(Path("m"), "b1", store="bids")
    name = f"marked_{abs(hash(request.node.nodeid))}"
    Path(f"{name}.py").write_text(CODE)
    return name


def lines(module: str, *names: str, **targets: str) -> list[str]:
    report = check("m", code=[f"{module}:{name}" for name in names], targets=targets)
    return [str(each).replace(module, "module") for each in report.findings]


def test_the_targets_of_the_code_are_what_it_is_compared_with(module: str) -> None:
    assert lines(module, "Older", "checked") == []
    assert lines(module, "Older", auctions="head") == []
    (finding,) = lines(module, "Plain")
    assert "module:Plain: the code's schema is not the one of its target revision a2" in finding
    assert lines(module, "Plain", auctions="a1") == []


def test_targets_that_the_query_would_stumble_over_are_found(module: str) -> None:
    assert lines(module, "Astray") == [
        "auctions: module:Astray: Store 'auctions' has no revision 'zz' [SM-LINEAGE-020] "
        "(expected one of base, a1, "
        "a2; found 'zz'); next: `statemigrate history auctions` lists them",
        "bids: module:Astray: its targets name a store that it does not have (expected one of "
        "auctions; found bids); next: correct the name in targets=",
    ]


def test_a_function_of_apply_in_pandas_with_state_is_seen(module: str) -> None:
    assert lines(module, "old") == []
    assert lines(module, "astray", "unscripted") == [
        "auctions: module:astray: Store 'auctions' has no revision 'zz' [SM-LINEAGE-020] "
        "(expected one of base, a1, "
        "a2; found 'zz'); next: `statemigrate history auctions` lists them",
        "clicks: module:unscripted: its store clicks has no migration script (expected at least a "
        "baseline, which says what format the state has today; found scripts of auctions, bids); "
        "next: `statemigrate new clicks -m MESSAGE`",
    ]


def test_a_function_without_a_mark_is_told_what_it_needs(module: str) -> None:
    (finding,) = lines(module, "plain")
    assert finding == (
        "module:plain is no code whose state has migrations [SM-CODE-006] "
        "(expected a StatefulProcessor, or a "
        "function that migrated(..., store=...) was given; found a function); next: put "
        "@migrated(store=STORE) on a function for applyInPandasWithState, or name a processor; a "
        "function from streams to the result is for `statemigrate rewrite --code`"
    )
