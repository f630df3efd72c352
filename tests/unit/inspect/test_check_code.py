"""`check --code`: what the code declares is what its target revision holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.script_files import script

from statemigrate.inspect.check_report import Finding
from statemigrate.inspect.script_check import check

PROCESSOR = """
from pyspark.sql.streaming import StatefulProcessor


class {name}(StatefulProcessor):
    def init(self, handle):
        self.auction = handle.getValueState("auctions", "{schema}")
        self.other = handle.getValueState("unscripted", "x INT")

    def handleInputRows(self, key, rows, timerValues):
        yield from ()

    def close(self):
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """auctions: base has a, the head a2 has a and b. bids: one script, declared by nobody."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    script(Path("m"), "a1")
    script(
        Path("m"),
        "a2",
        "a1",
        new='Struct("a BIGINT, b INT")',
        upgrade="return {**value, 'b': None}",
    )
    script(Path("m"), "b1", store="bids")
    return Path("m")


@pytest.fixture
def pipeline(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    name = f"checked_{abs(hash(request.node.nodeid))}"
    old = PROCESSOR.format(name="Old", schema="a BIGINT")
    new = PROCESSOR.format(name="New", schema="a BIGINT, b INT")
    (tmp_path / f"{name}.py").write_text(old + new)
    return name


def mismatch(code: str, target: str, *differences: str) -> str:
    return (
        f"auctions: {code}: the code's schema is not the one of its target revision {target}"
        " [SM-START-004]"
        "; next: `statemigrate history --show auctions@head` shows the format; declare it in "
        "init, or set "
        "targets to the revision the code is written for, or run "
        "`statemigrate new auctions -m MESSAGE`" + "".join(f"\n  {each}" for each in differences)
    )


def test_code_must_declare_what_the_head_holds(folder: Path, pipeline: str) -> None:
    old, new = f"{pipeline}:Old", f"{pipeline}:New"
    assert check(folder, code=[new]).passed
    (finding,) = check(folder, code=[new, old]).findings
    assert (finding.kind, finding.store, finding.revision) == ("code", "auctions", "a2")
    assert str(finding) == mismatch(old, "a2", "b: missing, expected INT")


def test_a_target_is_what_the_code_is_compared_with(folder: Path, pipeline: str) -> None:
    old, new = f"{pipeline}:Old", f"{pipeline}:New"
    targets = {"auctions": "head-1"}
    assert check(folder, code=[old], targets=targets).passed
    (finding,) = check(folder, code=[old, new], targets=targets).findings
    assert str(finding) == mismatch(new, "a1", "b: found INT, expected no such field")


WIDE = ", ".join(f"field_number_{n} BIGINT" for n in range(40))


def test_of_wide_structs_each_field_that_differs_has_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = f"{WIDE}, sums STRUCT<n: BIGINT, total: BIGINT>, last STRING NOT NULL, gone INT"
    declared = f"{WIDE}, sums STRUCT<n: BIGINT, total: INT>, last STRING, come DATE"
    script(Path("m"), "a1", new=f"Struct({target!r})", upgrade="return value")
    (tmp_path / "wide_code.py").write_text(PROCESSOR.format(name="Wide", schema=declared))
    (finding,) = check(Path("m"), code=["wide_code:Wide"], made_up=False).findings
    assert set(finding.differences) == {
        "sums.total: found INT, expected BIGINT",
        "gone: missing, expected INT",
        "come: found DATE, expected no such field",
    }
    line, *differences = str(finding).split("\n")
    assert [each.strip() for each in differences] == list(finding.differences)
    assert "field_number" not in str(finding)
    assert max(map(len, differences)) < 80
    assert finding.to_json()["differences"] == list(finding.differences)
    assert line.startswith("auctions: wide_code:Wide: the code's schema is not the one of")


def test_texts_that_differ_late_are_shown_from_there():
    same = "x" * 300
    told = str(Finding("script", "two texts", "correct it", f"{same}one", f"{same}two"))
    assert "one" in told
    assert "two; next" in told.replace("two texts", "").replace(")", "")
    assert len(told) < 250
    short = str(Finding("script", "two texts", "correct it", "abc", "abd"))
    assert short == "two texts (expected abc; found abd); next: correct it"


def test_a_target_must_be_a_revision_of_a_store_with_scripts(folder: Path, pipeline: str) -> None:
    report = check(folder, code=[f"{pipeline}:Old"], targets={"auctions": "zz", "nothing": "base"})
    assert [str(finding) for finding in report.findings] == [
        "auctions: Store 'auctions' has no revision 'zz' [SM-LINEAGE-020] "
        "(expected one of base, a1, a2; found "
        "'zz'); next: `statemigrate history auctions` lists them",
        "nothing: a target is named for a store without scripts (expected one of auctions, bids; "
        "found nothing=base); next: correct the store in --target",
    ]


def test_code_that_cannot_be_asked_is_a_finding_each(folder: Path, pipeline: str) -> None:
    report = check(folder, code=["no_such_module:X", f"{pipeline}:Missing", f"{pipeline}:Old"])
    assert [finding.kind for finding in report.findings] == ["code"] * 3
    assert str(report.findings[0]) == (
        "no_such_module:X cannot be imported [SM-CODE-003] "
        "(expected a module that imports, with an object of "
        "that name; found ModuleNotFoundError: No module named 'no_such_module'); next: run it "
        "from the folder that `import` starts at, with everything installed that the module needs"
    )


def test_code_is_not_compared_with_a_broken_lineage(folder: Path, pipeline: str) -> None:
    script(folder, "a3", "a2", new="(")
    (finding,) = check(folder, code=[f"{pipeline}:Old"], targets={"auctions": "zz"}).findings
    assert (finding.kind, finding.revision) == ("script", "a3")
