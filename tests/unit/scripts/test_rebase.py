"""Two heads after a merge: one branch follows the other, and no field of either is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.script_files import script

import statemigrate
from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Struct
from statemigrate.inspect.script_check import check
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.applied import write_applied
from statemigrate.scripts.loading import load

FOLDER = Path("migrations")
BASE, OURS, THEIRS = "id BIGINT", "id BIGINT, currency STRING", "id BIGINT, n INT"
BOTH = "id BIGINT, n INT, currency STRING"


def write(revision, down, old, new, upgrade, **more):
    return script(
        FOLDER, revision, down, old=f'Struct("{old}")', new=f'Struct("{new}")', upgrade=upgrade,
        **more,
    )  # fmt: skip


DOWN = """

def downgrade(value):
    return {"id": value["id"]}
"""


@pytest.fixture
def two_heads(tmp_path, monkeypatch):
    """A colleague's branch of two scripts, and one's own of two."""
    monkeypatch.chdir(tmp_path)
    write("aa01", None, BASE, BASE, "return value")
    write("bb01", "aa01", BASE, OURS, 'return {**value, "currency": "EUR"}')
    path = write("cc01", "aa01", BASE, THEIRS, 'return {"id": value["id"], "n": 1}  # one each')
    path.write_text(path.read_text() + DOWN)
    write("cc02", "cc01", THEIRS, f"{THEIRS}, m INT", 'return {**value, "m": 2}')
    return {each.stem: each for each in (FOLDER / "versions").glob("*.py")}


def lineage():
    return ScriptFolder(FOLDER).lineage("auctions")


def test_nothing_is_written_without_being_told_to(two_heads):
    before = {path: path.read_bytes() for path in two_heads.values()}
    found = statemigrate.new("auctions", rebase=True, migrations=FOLDER)
    assert (found.onto, [each.revision for each in found.scripts]) == ("bb01", ["cc01", "cc02"])
    assert not found.written
    assert {path: path.read_bytes() for path in two_heads.values()} == before
    assert "--apply" in found.next_action


def test_a_branch_follows_the_other_and_carries_its_fields(two_heads):
    found = statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    after = lineage()
    assert after.revisions == ("base", "aa01", "bb01", "cc01", "cc02")
    assert after.format_of("cc01") == Struct(BOTH)
    assert after.format_of("cc02") == Struct("id BIGINT, n INT, m INT, currency STRING")
    up = after.path("bb01", "cc02").apply({"id": 7, "currency": "CHF"})
    assert up == {"id": 7, "n": 1, "m": 2, "currency": "CHF"}
    down = after.path("cc01", "bb01").apply({"id": 7, "n": 1, "currency": "CHF"})
    assert down == {"id": 7, "currency": "CHF"}
    # Every script of the branch asks, and a check refuses it until it is answered.
    assert [len(each.questions) for each in found.scripts] == [1, 1]
    asked = {each.revision: len(each.questions) for each in after.migrations}
    assert asked == {"aa01": 0, "bb01": 0, "cc01": 1, "cc02": 1}
    assert len(check(FOLDER).findings) == 2
    # What the author wrote is there as it was.
    assert "# one each" in two_heads["cc01"].read_text()
    assert two_heads["aa01"].read_text().count("aa01") == 1


def test_answered_questions_leave_scripts_in_order(two_heads):
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    for path in two_heads.values():
        lines = path.read_text().split("\n")
        path.write_text("\n".join(line for line in lines if "QUESTION" not in line))
    assert check(FOLDER).findings == ()
    with pytest.raises(LineageError):
        statemigrate.new("auctions", rebase=True, migrations=FOLDER)


def test_the_error_and_the_check_of_two_heads_name_the_command(two_heads):
    with pytest.raises(LineageError) as raised:
        lineage()
    assert "`statemigrate new auctions --rebase`" in raised.value.next_action
    assert any("statemigrate new auctions --rebase" in str(each) for each in check(FOLDER).findings)


def test_the_head_that_stays_may_be_named(two_heads):
    found = statemigrate.new(
        "auctions", rebase=True, onto="auctions@cc", migrations=FOLDER, apply=True
    )
    assert lineage().revisions == ("base", "aa01", "cc01", "cc02", "bb01")
    assert found.questions == tuple(
        f"`{name}` is of cc01 to cc02 alone: is it kept as it is?" for name in ("n", "m")
    )
    with pytest.raises(LineageError):
        statemigrate.new("auctions", rebase=True, onto="bb01", migrations=FOLDER)


def test_what_was_applied_stays_as_it_is(two_heads):
    write_applied(FOLDER, {"auctions": {"cc01": load(two_heads["cc01"]).checksum}})
    assert statemigrate.new("auctions", rebase=True, migrations=FOLDER).onto == "cc02"
    with pytest.raises(LineageError) as raised:
        statemigrate.new("auctions", rebase=True, onto="bb01", migrations=FOLDER)
    assert raised.value.data["revision"] == "cc01"
    write_applied(FOLDER, {"auctions": {"cc01": "0" * 64, "bb01": "0" * 64}})
    with pytest.raises(LineageError) as raised:
        statemigrate.new("auctions", rebase=True, migrations=FOLDER)
    assert raised.value.data["revisions"] == ("bb01", "cc02")


def test_two_first_scripts_become_one_chain(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("bb01", None, BASE, OURS, 'return {**value, "currency": "EUR"}')
    write("cc01", None, BASE, THEIRS, 'return {**value, "n": 1}')
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert lineage().revisions == ("base", "bb01", "cc01")
    assert lineage().format_of("cc01") == Struct(BOTH)


def test_three_heads_take_two_turns(two_heads):
    write("dd01", "aa01", BASE, f"{BASE}, x INT", 'return {**value, "x": 1}')
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    found = statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert {each.revision for each in found.scripts} == {"dd01"}
    assert lineage().revisions == ("base", "aa01", "bb01", "cc01", "cc02", "dd01")
    up = lineage().path("aa01", "dd01").apply({"id": 7})
    assert up == {"id": 7, "x": 1, "n": 1, "m": 2, "currency": "EUR"}


def test_a_script_that_is_put_on_others_twice_carries_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("aa01", None, BASE, BASE, "return value")
    for name in ("bb", "cc", "dd"):
        write(f"{name}01", "aa01", BASE, f"{BASE}, {name} INT", f'return {{**value, "{name}": 1}}')
    statemigrate.new("auctions", rebase=True, onto="cc01", migrations=FOLDER, apply=True)
    statemigrate.new("auctions", rebase=True, onto="dd01", migrations=FOLDER, apply=True)
    up = lineage().path("aa01", lineage().head).apply({"id": 7})
    assert up == {"id": 7, "bb": 1, "cc": 1, "dd": 1}


def test_what_both_have_changed_is_asked(two_heads):
    write("bb01", "aa01", BASE, "id STRING", 'return {"id": str(value["id"])}')
    write("cc01", "aa01", BASE, "id DATE, n INT", 'return {"id": None, "n": 1}')
    two_heads["cc02"].unlink()
    found = statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    (text,) = found.questions
    assert "`id`" in text
    assert lineage().format_of("cc01") == Struct("id DATE, n INT")
    assert len(lineage().migrations[-1].questions) == 1


@pytest.mark.parametrize("name", ["a b", "q`'\"", "x\\n# y", "ключ", "a\u202eb", "$(id)"])
def test_names_of_fields_become_neither_code_nor_comments_of_others(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    ddl = Struct(f"id BIGINT, `{name.replace('`', '``')}` STRING").ddl
    write("aa01", None, BASE, BASE, "return value")
    script(
        FOLDER, "bb01", "aa01", old=f"Struct({BASE!r})", new=f"Struct({ddl!r})",
        upgrade=f"return {{**value, {name!r}: 'EUR'}}",
    )  # fmt: skip
    write("cc01", "aa01", BASE, THEIRS, 'return {**value, "n": 1}')
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert lineage().path("aa01", "cc01").apply({"id": 7}) == {"id": 7, "n": 1, name: "EUR"}
    assert len(lineage().migrations[-1].questions) == 1


def test_what_only_its_author_can_change_is_left_as_it_is(two_heads):
    text = two_heads["cc01"].read_text()
    for other in (
        text.replace("\nold = ", "\nif True:\n    old = "),
        text.replace("\nold = ", "\nx = 1; old = "),
        text.replace("def upgrade", "def merge(first, second):\n    return first\n\n\ndef upgrade"),
    ):
        two_heads["cc01"].write_text(other)
        with pytest.raises(ScriptError) as raised:
            statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
        assert raised.value.data["path"] == str(two_heads["cc01"])
        assert two_heads["cc01"].read_text() == other


LENSES = """
from statemigrate.lenses import lens, {names}

change = lens({lenses})
"""


def declared(revision, down, old, new, **lenses):
    """A script with lenses; without ``new`` the format after it is derived."""
    path = write(revision, down, old, new or old, "return value")
    text = path.read_text()
    text = text[: text.index("def upgrade")]
    if new is None:
        text = "\n".join(each for each in text.split("\n") if not each.startswith("new = "))
    calls = ", ".join(f"{name}({', '.join(map(repr, given))})" for name, given in lenses.items())
    path.write_text(text + LENSES.format(names=", ".join(lenses), lenses=calls))
    return path


@pytest.mark.parametrize("new", [THEIRS, None])
def test_lenses_stay_and_what_they_do_not_name_passes_them(two_heads, new):
    two_heads["cc02"].unlink()
    path = declared("cc01", "aa01", BASE, new, add=["n", "INT"])
    found = statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert [each.questions for each in found.scripts] == [()]
    after = lineage()
    assert after.revisions == ("base", "aa01", "bb01", "cc01")
    assert after.format_of("cc01") == Struct("id BIGINT, currency STRING, n INT")
    up = after.path("bb01", "cc01").apply({"id": 7, "currency": "CHF"})
    assert up == {"id": 7, "n": None, "currency": "CHF"}
    assert after.path("cc01", "bb01").apply(up) == {"id": 7, "currency": "CHF"}
    assert "change = lens(add('n', 'INT'))" in path.read_text()
    assert check(FOLDER).findings == ()


def test_lenses_that_do_not_fit_the_other_branch_are_left_to_their_author(two_heads):
    two_heads["cc02"].unlink()
    path = declared("cc01", "aa01", BASE, None, rename=["id", "currency"])
    before = path.read_text()
    with pytest.raises(ScriptError) as raised:
        statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert raised.value.code == "SM-SCRIPT-028"
    assert "currency" in raised.value.found
    assert path.read_text() == before


def test_a_function_of_another_form_stays_and_its_script_asks(two_heads):
    path = two_heads["cc01"]
    text = path.read_text()
    path.write_text(text.replace("def upgrade(value):", "def upgrade(value, *more):"))
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    assert "before_rebase" not in path.read_text()
    assert len(lineage().migrations[2].questions) == 1


def test_line_ends_and_the_encoding_stay(two_heads):
    path = two_heads["cc01"]
    text = f"# -*- coding: latin-1 -*-\n# Gr\xfc\xdfe\n{path.read_text()}"
    path.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    statemigrate.new("auctions", rebase=True, migrations=FOLDER, apply=True)
    data = path.read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n")
    assert "Gr\xfc\xdfe" in data.decode("latin-1")
    assert lineage().head == "cc02"


def test_another_fault_of_the_store_comes_first(two_heads):
    two_heads["bb01"].write_text(two_heads["bb01"].read_text().replace("new = ", "newer = "))
    with pytest.raises(ScriptError):
        statemigrate.new("auctions", rebase=True, migrations=FOLDER)


def test_the_command_shows_the_difference_and_then_writes_it(two_heads, run_cli):
    shown = run_cli("new", "--rebase", "auctions")
    assert "-down_revision = 'aa01'" in shown.stdout
    assert '+down_revision = "bb01"' in shown.stdout
    assert "? `currency` is of bb01 alone" in shown.stdout
    told = json.loads(run_cli("new", "--rebase", "auctions", "--apply", "--json").stdout)
    assert (told["onto"], told["written"]) == ("bb01", True)
    assert [each["revision"] for each in told["scripts"]] == ["cc01", "cc02"]
    assert lineage().head == "cc02"


@pytest.fixture
def run_cli():
    from click.testing import CliRunner

    from statemigrate.cli import main

    def run(*arguments):
        found = CliRunner().invoke(main, list(arguments))
        assert found.exit_code == 0, found.output
        return found

    return run
