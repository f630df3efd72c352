"""`heads.txt`: two branches that both add a script conflict, and a wrong merge is found."""

import re
import shutil
import subprocess

import pytest

from statemigrate import check, new
from statemigrate.errors import LineageError
from statemigrate.formats import Struct
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.heads import FILE, read_heads, write_heads

FIRST = Struct("n INT")
WIDER = Struct("n INT, of_one STRING")
OTHER = Struct("n INT, of_other STRING")


class Repository:
    """A git repository whose folder of scripts has one script of the store ``items``."""

    with_lenses = True

    def __init__(self, root):
        self.root, self.folder = root, root / "migrations"
        self.git("init", "--initial-branch", "main")
        ScriptFolder.create(self.folder)
        self.add(FIRST, baseline=True)
        self.commit()

    def git(self, *words, code=0):
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        command = [shutil.which("git"), "-C", str(self.root), *who, *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout

    def add(self, fmt, store="items", *, baseline=False):
        how = {"baseline": True} if baseline else {"lens": self.with_lenses}
        path = new(store, "a change", new=fmt, migrations=self.folder, **how).path
        text = path.read_text()
        path.write_text(re.sub("raise NotImplementedError.*", "return {**value}", text))
        return path

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--message", "a change")

    def branch(self, name, fmt, store="items"):
        self.git("checkout", "-b", name, "main")
        made = self.add(fmt, store, baseline=store != "items")
        self.commit()
        return made

    @property
    def findings(self):
        """Those with a code: a question that only an author answers has none."""
        found = check(migrations=self.folder, made_up=False).findings
        return [(each.code, each.store) for each in found if each.code]


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


@pytest.fixture
def merged(repository):
    return merge(repository)


def merge(repository):
    """Two branches that both added a script, in the middle of their merge."""
    repository.branch("one", WIDER)
    repository.branch("other", OTHER)
    said = repository.git("merge", "one", code=1)
    assert f"migrations/{FILE}" in said
    return repository


def test_two_branches_that_add_a_script_to_one_store_conflict_in_one_line(merged):
    assert ("SM-LINEAGE-029", None) in merged.findings
    with pytest.raises(LineageError) as caught:
        read_heads(merged.folder)
    assert caught.value.data["line"] == 2


def test_what_the_error_of_a_conflict_says_to_do_leads_out_of_it(merged):
    """The marks of the conflict are still in the file."""
    before = {path: path.read_bytes() for path in merged.folder.rglob("*") if path.is_file()}
    with pytest.raises(LineageError) as caught:
        merged.add(FIRST, "totals", baseline=True)
    assert caught.value.code == "SM-LINEAGE-029"
    assert {path: path.read_bytes() for path in before} == before
    assert {path for path in merged.folder.rglob("*") if path.is_file()} == {*before}
    first, second = re.findall("`(statemigrate .*?)`", caught.value.next_action)
    assert first.endswith("check --write-heads")
    assert second.endswith("new STORE --rebase --apply")
    check(migrations=merged.folder, made_up=False, write_heads=True)
    new("items", rebase=True, apply=True, migrations=merged.folder)
    assert [*read_heads(merged.folder)] == ["items"]
    assert merged.findings == []


def test_a_script_that_the_merge_lost_is_found(merged):
    merged.git("checkout", "--ours", f"migrations/{FILE}")
    assert {code for code, _ in merged.findings} == {"SM-LINEAGE-014"}
    for path in ScriptFolder(merged.folder).versions.glob("*.py"):
        if "of_other" in path.read_text():
            path.unlink()
    assert merged.findings == [("SM-LINEAGE-030", "items")]


@pytest.mark.parametrize("with_lenses", [True, False])
def test_after_a_rebase_the_line_is_that_of_the_one_chain(repository, with_lenses):
    repository.with_lenses = with_lenses
    merged = merge(repository)
    merged.git("checkout", "--theirs", f"migrations/{FILE}")
    new("items", rebase=True, apply=True, migrations=merged.folder)
    head = ScriptFolder(merged.folder).lineage("items").head
    assert read_heads(merged.folder)["items"].split()[0] == head
    assert "SM-LINEAGE-030" not in {code for code, _ in merged.findings}


def test_scripts_of_other_stores_keep_their_lines(repository):
    before = read_heads(repository.folder)["items"]
    repository.add(FIRST, "totals", baseline=True)
    after = read_heads(repository.folder)
    assert sorted(after) == ["items", "totals"]
    assert after["items"] == before
    assert repository.findings == []


def test_a_script_under_another_one_than_it_was_written_on_is_found(repository):
    first, second = repository.add(WIDER), repository.folder
    script = next(p for p in ScriptFolder(second).versions.glob("*.py") if p != first)
    revision = read_heads(second)["items"].split()[0]
    base = ScriptFolder(second).lineage("items").resolve("base+1")
    script.write_text(script.read_text().replace(base, "aaaabbbbcccc"))
    first.write_text(first.read_text().replace(base, "aaaabbbbcccc"))
    assert read_heads(second)["items"].startswith(revision)
    assert repository.findings == [("SM-LINEAGE-030", "items")]
    found = check(migrations=second, made_up=False, write_heads=True).findings
    assert [each for each in found if each.code] == []


def test_a_folder_from_before_has_no_file_until_it_is_asked_for(repository):
    (repository.folder / FILE).unlink()
    repository.add(WIDER)
    assert not (repository.folder / FILE).exists()
    assert repository.findings == []
    scripts = ScriptFolder(repository.folder).survey()
    assert write_heads(repository.folder, scripts) == repository.folder / FILE
    assert repository.findings == []
    for path in ScriptFolder(repository.folder).versions.glob("*.py"):
        path.unlink()
    assert repository.findings == [("SM-LINEAGE-030", "items")]
