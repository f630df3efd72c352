"""Names of a checkpoint in generated scripts: texts, and never code."""

import ast
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from statemigrate.cli.main import main
from statemigrate.deployment import StoredFamily, StoredStore
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.manifest import Manifest, PartitionState
from statemigrate.embedded.versions import publish_manifest
from statemigrate.errors import ScriptError, StatemigrateError
from statemigrate.formats import Struct
from statemigrate.formats.stored_formats import struct_from_json
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts import new_script_text as writing
from statemigrate.scripts import source as comments
from statemigrate.scripts.loading import load
from statemigrate.scripts.rekeying import KeyChange
from tests.support.hostile import EXAMPLES, fuzzed
from tests.support.hostile_names import PAYLOADS, names, nothing_was_run

few = settings(fuzzed, max_examples=max(1, EXAMPLES // 2))
LINE = "a line of its own"
STATEMENTS = {"Expr", "ImportFrom", "Assign", "FunctionDef"}
FILLING = [
    {"name": f"column_{n}", "type": "long", "nullable": True, "metadata": {}} for n in range(9)
]


def field(name: str, type_: Any = "string", nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Struct types whose fields have such names, at the top, within each other and in lists."""
    found = draw(st.lists(names(), min_size=1, max_size=3, unique=True))
    leaves = st.sampled_from(["string", "long", "double", "decimal(9,2)", "binary", "date"])
    nested = st.builds(lambda n, t: struct(field(n, t), field(f"{n}-2")), names(), leaves)
    lists = st.builds(lambda t: {"type": "array", "elementType": t, "containsNull": True}, nested)
    fields = [field(name, draw(leaves | nested | lists), draw(st.booleans())) for name in found]
    known = {name.lower() for name in found}
    return struct(*fields, *([] if known & {"column_0"} else FILLING * draw(st.booleans())))


def made(document: dict[str, Any]) -> Struct:
    try:
        return struct_from_json(document)
    except StatemigrateError:
        assume(False)
        raise


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names")


def new_folder(place: Path) -> ScriptFolder:
    return ScriptFolder.create(place / f"migrations-{len(list(place.iterdir()))}")


def statements(path: Path) -> set[str]:
    return {type(each).__name__ for each in ast.parse(path.read_bytes()).body}


@few
@given(value=documents(), key=documents(), note=names())
def test_a_baseline_has_the_format_and_nothing_else(place, value, key, note):
    value_format, key_format = made(value), made(key)
    path = new_folder(place).new(
        "totals", "as it is", new=value_format, new_key=key_format, baseline=True, notes=note
    )
    script = load(path)
    assert (script.get("new"), script.get("new_key")) == (value_format, key_format)
    assert script.get("old", 1) is None
    assert statements(path) <= STATEMENTS
    assert not script.questions
    assert nothing_was_run(place)


@few
@given(old=documents(), new=documents())
def test_inferred_functions_are_functions_and_nothing_else(place, old, new):
    before, after = made(old), made(new)
    path = new_folder(place).new("totals", "change", old=before, new=after, infer=True)
    script = load(path)
    assert (script.get("old"), script.get("new")) == (before, after)
    assert statements(path) <= STATEMENTS
    asked = [line for line in path.read_text().split("\n") if line.strip().startswith("# QUESTION")]
    assert len(asked) == len(script.questions)
    assert nothing_was_run(place)


@few
@given(value=documents(), old=documents(), new=documents())
def test_functions_for_keys_are_functions_and_nothing_else(place, value, old, new):
    format_, keys = made(value), KeyChange(made(old), made(new))
    path = new_folder(place).new(
        "aggregation-0", "keys", old=format_, new=format_, infer=True, keys=keys
    )
    assert load(path).get("new_key") == keys.new
    assert statements(path) <= STATEMENTS
    assert nothing_was_run(place)


@pytest.mark.parametrize("first", range(0, len(PAYLOADS), 20))
def test_all_payloads_are_names_in_one_script(place, first):
    """Within each other, in lists, and as what stays, goes and comes."""
    payloads = PAYLOADS[first : first + 20]
    lists = {"type": "array", "elementType": struct(field("a"), field("b")), "containsNull": True}
    others = {**lists, "elementType": struct(field("a", "long"), field("c"))}
    before = made(struct(*(field(name, struct(field(name, lists))) for name in payloads)))
    after = made(struct(*(field(name, struct(field(name, others))) for name in payloads[:-3])))
    folder = new_folder(place)
    script = load(folder.new("totals", "change", old=before, new=after, infer=True))
    assert (script.get("old"), script.get("new")) == (before, after)
    assert nothing_was_run(place)


def test_notes_that_end_the_docstring_are_refused(place, monkeypatch):
    monkeypatch.setattr(writing, "in_docstring", str)
    folder = new_folder(place)
    notes = f'"""\n{PAYLOADS[4]}\n"""'
    with pytest.raises(ScriptError, match="not what it was meant to be"):
        folder.new("totals", "it", new=made(struct(field("a"))), baseline=True, notes=notes)
    assert nothing_was_run(place)


def test_what_a_writer_lets_through_is_refused_before_anything_is_imported(place, monkeypatch):
    """The proof does not rest on the writers: each put back as it was, nothing is run."""
    name = PAYLOADS[0]
    format_ = made(struct(field(name), *FILLING))

    def raw(name: str, format_: Any) -> str:
        return f'{name} = Struct("""\n{format_.ddl}\n""")'

    monkeypatch.setattr(writing, "assignment", raw)
    folder = new_folder(place)
    with pytest.raises(ScriptError, match="not what it was meant to be"):
        folder.new("totals", "as it is", new=format_, baseline=True)
    assert list(folder.versions.iterdir()) == []
    assert nothing_was_run(place)


@pytest.mark.parametrize("payload", [PAYLOADS[4], PAYLOADS[5]])
def test_a_comment_that_ends_too_early_is_refused(place, monkeypatch, payload):
    monkeypatch.setattr(comments, "visible", str)
    before, after = made(struct(field("a"))), made(struct(field("a"), field(payload)))
    folder = new_folder(place)
    with pytest.raises((ScriptError, SyntaxError)):
        folder.new("totals", "change", old=before, new=after, infer=True)
    assert list(folder.versions.iterdir()) == []
    assert nothing_was_run(place)


def test_a_checkpoint_of_a_stranger_gives_scripts_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "cp")
    formats = {f"store_{n}": made(struct(field(p), *FILLING)) for n, p in enumerate(PAYLOADS[:6])}
    stores = {
        name: StoredStore("value", (StoredFamily(name, "base", each),), {}, None)
        for name, each in formats.items()
    }
    key = {"type": "struct", "fields": [field(PAYLOADS[0])]}
    publish_manifest(layout, Manifest(1, key, (PartitionState(),), stores, {}))
    for name in ("commits/0", "commits/1", "offsets/0", "offsets/1", "metadata"):
        path = layout.checkpoint / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"id":"query"}' if name == "metadata" else "v1\n{}\n-")
    ScriptFolder.create("migrations")
    runner = CliRunner()
    for verb in (["new", "--from-checkpoint", str(layout.checkpoint)], ["history"], ["check"]):
        answer = runner.invoke(main, verb)
        assert answer.exit_code == 0, answer.output
        assert nothing_was_run(tmp_path)
    lineages = ScriptFolder("migrations").lineages()
    assert {n: each.format_of(each.head) for n, each in lineages.items()} == formats


def test_no_name_begins_a_line_of_a_script_that_is_shown(place):
    """Of a baseline, of a change, and of their keys."""
    whole = [field(name, struct(field(f"x\n{LINE}"))) for name in (f"y\n{LINE}", *PAYLOADS[:12])]
    before, after = made(struct(*whole)), made(struct(*whole[:-3], field("z")))
    folder = new_folder(place)
    folder.new("totals", "as it is", new=before, new_key=after, baseline=True)
    folder.new("totals", "change", new=after, infer=True)
    for revision in ("totals@base", "totals@head"):
        words = ["--migrations", str(folder.directory), "history", "--show", revision]
        answer = CliRunner().invoke(main, words)
        assert answer.exit_code < 2, answer.output
        assert LINE in answer.output
        assert not [line for line in answer.output.split("\n") if line.startswith(LINE)]
    assert nothing_was_run(place)


def test_an_alembic_whose_scripts_cannot_be_proven_writes_none(place, monkeypatch):
    monkeypatch.delattr(ScriptDirectory, "_generate_template")
    folder = new_folder(place)
    with pytest.raises(ScriptError, match="this alembic is not known"):
        folder.new("totals", "as it is", new=made(struct(field("a"))), baseline=True)
    assert list(folder.versions.iterdir()) == []
