"""The parts of a script that only a rewrite knows, read and refused."""

import pytest
from support.pages import DOCS, Page

from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Struct
from statemigrate.migration.stages import stages_of

KEYED = """
new_key = Struct("shop STRING")


def rekey(key, value):
    return {"shop": key["shop"]}


def merge(first, second):
    return first
"""
UPGRADE = "\n\ndef upgrade(value):\n    return value\n"


def more(text, *, upgrade=True):
    return {UPGRADE: text + (UPGRADE if upgrade else "")}


def read(folder):
    (migration,) = folder.lineage("auctions").migrations
    return migration


def refused(folder, kind=ScriptError):
    with pytest.raises(kind) as raised:
        folder.lineage("auctions")
    assert raised.value.expected is not None
    assert raised.value.next_action
    return raised.value


def test_keys_their_function_and_merging_are_read(folder, write):
    write("a1", swap=more(KEYED))
    found = read(folder)
    assert found.new_key == Struct("shop STRING")
    assert found.rekey({"shop": "a", "day": 1}, {}) == {"shop": "a"}
    assert found.merge({"a": 1}, {"a": 2}) == {"a": 1}


def test_a_script_about_keys_alone_needs_no_upgrade(folder, write):
    write("a1", swap=more(KEYED, upgrade=False))
    path = folder.lineage("auctions").path("base", "a1")
    assert path.steps[0].run({"a": 1}) == {"a": 1}
    assert path.only_by_rewriting.only_by_rewriting == ("new_key", "rekey", "merge")


def test_a_merge_alone_leaves_values_only_in_one_format(folder, write):
    merge = "\n\ndef merge(first, second):\n    return first\n"
    write("a1", swap=more(merge, upgrade=False))
    assert read(folder).merge is not None
    write("a1", new='Struct("b BIGINT")', swap=more(merge, upgrade=False))
    assert "has no `upgrade`" in refused(folder, LineageError).summary


def test_a_table_form_stands_in_for_upgrade_and_may_change_keys(folder, write):
    table = "\nnew_key = Struct('b INT')\n\n\ndef upgrade_table(table):\n    return table\n"
    write("a1", swap=more(table, upgrade=False))
    found = read(folder)
    assert (found.upgrade, found.new_key) == (None, Struct("b INT"))
    step = folder.lineage("auctions").path("base", "a1").steps[0]
    assert step.only_by_rewriting == ("new_key", "upgrade_table")


def test_a_baseline_records_the_key_that_there_is(folder, write):
    text = "\nnew_key = Struct('shop STRING')\n"
    write("a1", old="None", swap=more(text, upgrade=False))
    write("b2", "a1", old='Struct("a BIGINT")', swap=more(KEYED.replace("STRING", "INT")))
    lineage = folder.lineage("auctions")
    assert lineage.key_of("a1") == Struct("shop STRING")
    assert lineage.key_of("b2") == Struct("shop INT")


@pytest.mark.parametrize(
    ("signature", "keyed"),
    [("value", False), ("value, key", True), ("value, key=None", True), ("value, scale=1", False)],
)
def test_an_upgrade_with_a_second_parameter_is_given_the_key(folder, write, signature, keyed):
    write("a1", swap={"def upgrade(value)": f"def upgrade({signature})"})
    step = folder.lineage("auctions").path("base", "a1").steps[0]
    assert step.takes_key is keyed
    assert step.only_by_rewriting == (("upgrade(value, key)",) if keyed else ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def rekey(key, value):\n    return key", "`rekey` gives keys that no format describes"),
        ("new_key = Struct('a INT')", "`new_key` says what keys are like, and nothing makes them"),
        ("new_key = 'a INT'\nrekey = print", "`new_key` is not a format"),
        (KEYED.replace("key, value", "key"), "`rekey` cannot be called as it will be"),
        (KEYED.replace("first, second", "*, first"), "`merge` cannot be called as it will be"),
        ("merge = 7", "`merge` is not a function"),
        ("def upgrade_table(a, b):\n    return a", "`upgrade_table` cannot be called"),
        (
            "def merge(first, second):\n    raise NotImplementedError('?')",
            "`merge` is not written yet",
        ),
        (
            f"{KEYED}\n\ndef downgrade(value):\n    return value",
            "`downgrade` gives values back, and nothing their keys",
        ),
    ],
)
def test_what_fits_no_rewrite_is_refused(folder, write, text, problem):
    path = write("a1", swap=more(f"\n{text}\n"))
    assert refused(folder).summary.startswith(f"{path}: {problem}")


@pytest.mark.parametrize("name", ["rekey", "merge", "upgrade_table"])
def test_a_baseline_has_no_functions(folder, write, name):
    write("a1", old="None", swap=more(f"\n{name} = print\n", upgrade=False))
    assert f"a baseline has `{name}`, which could never run" in refused(folder).summary


def test_an_upgrade_of_too_many_arguments_is_refused(folder, write):
    write("a1", swap={"def upgrade(value)": "def upgrade(value, key, more)"})
    error = refused(folder)
    assert "`upgrade` cannot be called as it will be" in error.summary
    assert error.found == "upgrade(value, key, more)"


@pytest.mark.parametrize("store", ["aggregation-0", "join-1.left"])
def test_scripts_of_an_operators_state_form_a_branch_of_its_name(folder, store):
    first = folder.new(store, "as it is", new=Struct("count BIGINT"), baseline=True)
    second = folder.new(store, "wider", new=Struct("count DOUBLE"), infer=True)
    assert f'branch_labels = ("{store}",)' in first.read_text()
    lineage = folder.lineage(store)
    assert [each.path for each in lineage.migrations] == [str(first), str(second)]
    assert [entry.store for entry in folder.history(store)] == [store, store]
    assert folder.show(f"{store}@head").path == str(second)
    assert folder.show(store).path == str(second)


def test_a_format_without_fields_is_written_so_that_it_can_be_read(folder):
    folder.new("deduplicate-0", "as it is", new=Struct("struct<>"), baseline=True)
    assert folder.lineage("deduplicate-0").formats == (Struct("STRUCT < >"),)


def test_the_script_of_the_page_gives_an_entry_for_each_region_and_merges(folder, tmp_path):
    page = Page(DOCS / "reference" / "scripts.md")
    (text,) = [each.text for each in page.blocks if each.title == "by_region.py"]
    named = (
        'from statemigrate.formats import Struct\n\nrevision = "a1"\ndown_revision = None\n'
        'branch_labels = ("aggregation-0",)\nstore = "aggregation-0"\n'
    )
    (tmp_path / "migrations" / "versions" / "a1_by_region.py").write_text(named + text)
    (stage,) = stages_of(folder.lineage("aggregation-0").path("base", "a1"))
    assert stage.entries({"customer": "c"}, {"orders": 3, "by_region": {"n": 1, "s": 2}}) == [
        ({"customer": "c", "region": "n"}, {"orders": 1}),
        ({"customer": "c", "region": "s"}, {"orders": 2}),
    ]
    key = {"customer": "c", "region": "n"}
    assert stage.merge(key, {"orders": 1}, {"orders": 4}) == {"orders": 5}
