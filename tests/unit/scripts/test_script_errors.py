import pytest

from statemigrate.errors import FormatError, LineageError, ScriptError


def refused(folder, kind=ScriptError):
    with pytest.raises(kind) as raised:
        folder.lineages()
    assert raised.value.expected is not None
    assert raised.value.found is not None
    assert raised.value.next_action
    return raised.value


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("store", "store = 'auctions'\n"),
        ("revision", "revision = 'a1'\n"),
        ("down_revision", "down_revision = None\n"),
        ("old", 'old = Struct("a BIGINT")\n'),
        ("new", 'new = Struct("a BIGINT")\n'),
        ("upgrade", "def upgrade(value):\n    return value\n"),
    ],
)
def test_a_missing_part_is_named_with_its_script(folder, write, part, line):
    path = write("a1", swap={line: ""})
    error = refused(folder)
    assert error.summary == f"{path}: `{part}` missing."
    assert error.data["path"] == str(path)


def test_all_missing_parts_are_named_at_once(folder, write):
    write("a1", body="store = 'auctions'")
    assert "`revision`, `down_revision` missing" in refused(folder).summary


def test_a_file_without_any_part_is_no_script(folder, write):
    write("a1", body="")
    assert "`store`, `revision`, `down_revision` missing" in refused(folder).summary


@pytest.mark.parametrize("part", ["old", "new"])
def test_a_format_of_the_wrong_type_is_refused(folder, write, part):
    path = write("a1", **{part: "'a BIGINT'"})
    error = refused(folder)
    assert error.summary == f"{path}: `{part}` is not a format."
    assert error.found == "str: 'a BIGINT'"


@pytest.mark.parametrize(("part", "value"), [("new", "None"), ("old", "...")])
def test_only_old_may_be_none_and_none_may_be_left_open(folder, write, part, value):
    write("a1", **{part: value})
    assert f"`{part}` is not" in refused(folder).summary


def test_a_script_that_does_not_import_shows_cause_and_line(folder, write):
    path = write("a1", new="Struct('a BIGINT') + 1 / 0")
    error = refused(folder)
    assert error.summary == f"{path}, line 13: the script does not import."
    assert error.found == "ZeroDivisionError: division by zero"
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_syntax_error_shows_its_line(folder, write):
    path = write("a1", body="x = 1\nold = (\n")
    error = refused(folder)
    assert error.summary == f"{path}, line 2: the script does not import."
    assert error.found.startswith("SyntaxError: ")


def test_a_missing_module_is_named(folder, write):
    write("a1", body="import no_such_module_at_all")
    assert refused(folder).found == ("ModuleNotFoundError: No module named 'no_such_module_at_all'")


def test_a_file_that_is_not_text_does_not_import(folder):
    (folder.versions / "a1_binary.py").write_bytes(b"\xff\xfe\x00")
    assert "does not import" in refused(folder).summary


def test_a_malformed_schema_names_the_script(folder, write):
    path = write("a1", new='Struct("a NOTHING_LIKE_IT")')
    error = refused(folder, FormatError)
    assert error.summary.startswith(f"{path}, line 13: ")
    assert error.data["path"] == str(path)


def test_an_upgrade_that_is_no_function_is_refused(folder, write):
    write("a1", swap={"def upgrade(value):\n    return value": "upgrade = 7"})
    assert "`upgrade` is not a function" in refused(folder).summary


def test_a_downgrade_that_is_no_function_is_refused(folder, write):
    write("a1", swap={"def upgrade": "downgrade = 7\n\n\ndef upgrade"})
    assert "`downgrade` is not a function" in refused(folder).summary


@pytest.mark.parametrize(
    "body",
    [
        "raise NotImplementedError",
        "raise NotImplementedError('later')",
        "'''Later.'''\n    raise NotImplementedError",
    ],
)
def test_an_upgrade_that_only_raises_is_not_written_yet(folder, write, body):
    write("a1", swap={"return value": body})
    assert "`upgrade` is not written yet" in refused(folder).summary


def test_an_upgrade_of_none_is_not_written_yet(folder, write):
    write("a1", swap={"def upgrade(value):\n    return value": "upgrade = None"})
    assert "`upgrade` is not written yet" in refused(folder).summary


def test_a_duplicate_revision_is_an_error(folder, write):
    first = write("a1")
    second = first.with_name("b1_copy.py")
    second.write_text(first.read_text())
    error = refused(folder, LineageError)
    assert error.summary == "Two scripts have the revision a1."
    assert error.found == f"{first} and {second}"


def test_a_revision_is_unique_among_all_stores(folder, write):
    first = write("a1")
    second = first.with_name("b1_copy.py")
    second.write_text(first.read_text().replace("auctions", "bids"))
    assert "Two scripts have the revision a1" in refused(folder, LineageError).summary


def test_a_missing_parent_is_an_error(folder, write):
    write("a1")
    path = write("b2", "gone")
    error = refused(folder, LineageError)
    assert error.summary == f"{path} follows a revision that does not exist."


def test_two_heads_name_both_scripts_and_the_command_that_makes_one_of_them(folder, write):
    write("a1", day=1)
    early = write("ff", "a1", day=2)
    late = write("b2", "a1", day=3)
    error = refused(folder, LineageError)
    assert error.summary == "Store 'auctions' has two heads: ff and b2."
    assert error.found == f"{early} and {late} both follow a1"
    assert "`statemigrate new auctions --rebase`" in error.next_action


def test_two_first_scripts_are_an_error(folder, write):
    write("a1", day=1)
    write("b2", day=2)
    assert "two first scripts: a1 and b2" in refused(folder, LineageError).summary


def test_a_circle_is_an_error(folder, write):
    write("a1", "b2")
    write("b2", "a1")
    assert "circle" in refused(folder, LineageError).summary


def test_another_store_in_the_middle_of_a_branch_is_an_error(folder, write):
    write("a1")
    path = write("b2", "a1", store="bids")
    error = refused(folder, LineageError)
    assert error.summary == f"{path} is for another store than the script it follows."


def test_an_old_that_is_not_the_new_before_is_an_error(folder, write):
    write("a1")
    write("b2", "a1", old='Struct("b STRING")')
    error = refused(folder, LineageError)
    assert "`old` of" in error.summary
    assert error.data["differences"] == error.found.splitlines()[:-1] != []


def test_a_merge_of_two_revisions_is_refused(folder, write):
    write("a1")
    write("b2", ("a1", "c3"))
    assert "more than one revision" in refused(folder).summary


def test_a_dependency_on_another_branch_is_refused(folder, write):
    write("a1", swap={"store =": "depends_on = 'x'\nstore ="})
    assert "`depends_on` has no meaning" in refused(folder).summary


@pytest.mark.parametrize("labels", [None, ("bids",), "bids", ("auctions", "bids")])
def test_the_branch_label_of_a_first_script_is_the_store(folder, write, labels):
    write("a1", labels=labels)
    assert refused(folder).expected == "branch_labels = ('auctions',)"


@pytest.mark.parametrize("labels", ["auctions", ["auctions"]])
def test_a_branch_label_may_be_written_in_any_way_alembic_takes(folder, write, labels):
    write("a1", labels=labels)
    assert folder.lineage("auctions").head == "a1"


def test_a_later_script_has_no_branch_label(folder, write):
    write("a1")
    write("b2", "a1", labels=("auctions",))
    assert refused(folder).expected == "branch_labels = None"


@pytest.mark.parametrize("revision", ["head", "a-1", 7])
def test_a_revision_that_cannot_be_is_refused(folder, write, revision):
    write(revision)
    assert "cannot be a revision" in refused(folder).summary


def test_a_baseline_with_a_transform_is_refused(folder, write):
    write("a1", old="None")
    with pytest.raises(LineageError, match="could never run") as raised:
        folder.lineages()
    assert raised.value.next_action == "fill in `old`, or remove the functions"


def test_a_broken_template_is_reported_and_no_script_is_left(folder):
    (folder.directory / "script.py.mako").write_text("${no_such_name.attribute}")
    with pytest.raises(ScriptError, match="No script could be written"):
        folder.new("auctions", "one")
    assert list(folder.versions.iterdir()) == []
