"""What alembic does for scripts here, and where its own reading ends and ours goes on."""

import itertools
import json
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from click.testing import CliRunner

from statemigrate import Struct, new
from statemigrate.cli import main
from statemigrate.errors import LineageError, ScriptError
from statemigrate.scripts import ScriptFolder

HOOK = """
[[tool.statemigrate.post_write_hooks]]
name = "format"
type = "module"
module = "ruff"
options = "format --isolated --line-length 60 REVISION_SCRIPT_FILENAME"
"""
LONG = "one STRUCT<a: BIGINT, b: BIGINT, c: BIGINT>, two STRUCT<d: BIGINT, e: BIGINT>"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working directory, with a folder of scripts; writes its pyproject.toml."""
    monkeypatch.chdir(tmp_path)
    ScriptFolder.create("migrations")
    return lambda text: Path("pyproject.toml").write_text(text)


def test_the_name_of_a_file_is_as_the_project_says(project):
    project('[tool.statemigrate]\nfile_template = "%%(slug)s.%%(rev)s"\ntruncate_slug_length = 5\n')
    written = new("bids", "as it is", new=Struct("a INT"), baseline=True)
    (entry,) = ScriptFolder("migrations").history()
    assert written.path.name == f"as_.{entry.revision}.py"
    assert entry.faults == ()


def test_the_teams_formatter_runs_over_a_new_script(project):
    wide = new("wide", "as it is", new=Struct(LONG), baseline=True).path.read_text()
    assert max(map(len, wide.splitlines())) > 80
    project(HOOK)
    narrow = new("narrow", "as it is", new=Struct(LONG), baseline=True).path.read_text()
    assert "new = Struct(\n" in narrow
    assert ScriptFolder("migrations").lineage("narrow").format_of(
        ScriptFolder("migrations").lineage("narrow").head
    ) == Struct(LONG)


def test_what_a_formatter_prints_is_no_part_of_json(project, capfd):
    project(HOOK)
    words = ["new", "bids", "-m", "x", "--to", "a INT", "--baseline", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["store"] == "bids"
    out, err = capfd.readouterr()
    assert (out, "reformatted" in err or "unchanged" in err) == ("", True)


@pytest.mark.parametrize("wrong", ['module = "no_such_formatter"', "nothing = 1"])
def test_a_formatter_that_is_not_there_leaves_no_script(project, wrong):
    project(HOOK.replace('module = "ruff"', wrong))
    with pytest.raises(ScriptError, match="No script could be written") as caught:
        new("bids", "as it is", new=Struct("a INT"), baseline=True)
    assert "post_write_hooks" in caught.value.next_action
    assert list(Path("migrations/versions").iterdir()) == []


def alembics_own() -> ScriptDirectory:
    versions = str(Path("migrations/versions").absolute())
    return ScriptDirectory(str(Path("migrations").absolute()), version_locations=[versions])


def resolved(find):
    try:
        return find()
    except (CommandError, LineageError):
        return None


def test_names_of_revisions_mean_what_alembic_takes_them_for(project):
    folder = ScriptFolder("migrations")
    formats = [Struct(f"a{number} INT") for number in range(4)]
    for before, after in itertools.pairwise(formats):
        path = folder.new("bids", "next", old=before, new=after)
        path.write_text(path.read_text().replace("raise NotImplementedError", "return value #"))
    folder.new("asks", "first", new=formats[0], baseline=True)
    lineage, own = folder.lineage("bids"), alembics_own()
    assert [each.revision for each in own.walk_revisions("base", "bids@head")][::-1] == list(
        lineage.revisions[1:]
    )
    names = ["head", "-1", "-2", *lineage.revisions[1:], lineage.revisions[2][:6], "zz"]
    for name in names:
        ours = resolved(lambda name=name: lineage.resolve(name))
        theirs = resolved(lambda name=name: own.get_revisions(f"bids@{name}")[0].revision)
        assert ours == theirs, name
    assert own.get_revisions("bids@base") == ()
    assert lineage.resolve("base") == "base"


def test_distances_from_a_revision_mean_something_without_a_database(project):
    folder = ScriptFolder("migrations")
    for before, after in (("a", "b"), ("b", "c")):
        written = folder.new("bids", "x", old=Struct(f"{before} INT"), new=Struct(f"{after} INT"))
        text = written.read_text()
        written.write_text(text.replace("raise NotImplementedError", "return value #"))
    # Alembic counts them from where a database is, within an upgrade; a query is in no one place.
    assert resolved(lambda: alembics_own().get_revisions("bids@head-1")) is None
    assert folder.show("bids@head-1").revision == folder.show("bids@base+1").revision


def test_one_broken_script_hides_all_others_from_alembic_and_none_here(project):
    new("bids", "as it is", new=Struct("a INT"), baseline=True)
    Path("migrations/versions/broken.py").write_text("import no_such_module\n")
    with pytest.raises(ModuleNotFoundError):
        alembics_own().get_heads()
    folder = ScriptFolder("migrations")
    found = {Path(each.path).name: bool(each.faults) for each in folder.history()}
    assert sorted(found.values()) == [False, True]
    assert found["broken.py"]
