"""`new STORE --squash REVISION`: one script in the place of those that no checkpoint is behind."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from support import checkpoints

from statemigrate import Squash, check, new, open_state
from statemigrate.commands import squash as squashing
from statemigrate.deployment import StoredFamily
from statemigrate.deployment.stored import complement_of
from statemigrate.errors import ScriptError
from statemigrate.formats import Struct
from statemigrate.formats.examples import made_up_values
from statemigrate.scripts import ScriptFolder
from statemigrate.scripts.applied import write_applied

SCRIPT = '''"""Step {number}."""

from decimal import Decimal

from statemigrate.formats import Struct
from statemigrate.lenses import add, cast, drop, lens, rename, scale

revision = "r{number}"
down_revision = {down!r}
branch_labels = {labels!r}
store = "items"
old = Struct("{old}")
new = Struct("{new}")


{body}
'''
FORMATS = [
    "cents BIGINT, name STRING",
    "cents BIGINT, title STRING",
    "amount DECIMAL(21,2), title STRING",
    "amount DECIMAL(21,2), title STRING, seen TIMESTAMP",
    "amount DECIMAL(21,2), label STRING, seen TIMESTAMP",
]
LENSES = [
    'change = lens(rename("name", "title"))',
    'change = lens(rename("cents", "amount"), scale("amount", places=2, type="DECIMAL(21,2)"))',
    'change = lens(add("seen", "TIMESTAMP"))',
    'change = lens(rename("title", "label"))',
]
BY_HAND = """def _money(cents):
    return None if cents is None else Decimal(cents).scaleb(-2)


def upgrade(value):
    return {"amount": _money(value["cents"]), "title": value["title"]}


def downgrade(value):
    amount = value["amount"]
    return {"cents": None if amount is None else int(amount.scaleb(2)), "title": value["title"]}"""
UNKNOWN = {"accept_unknown": ("unknown",)}


def scripts(root: Path, bodies: list[str]) -> ScriptFolder:
    folder = ScriptFolder.create(root / "migrations")
    for number, body in enumerate(bodies, 1):
        down = f"r{number - 1}" if number > 1 else None
        (folder.versions / f"r{number}_step.py").write_text(SCRIPT.format(
            number=number, down=down, labels=None if down else ("items",), body=body,
            old=FORMATS[number - 1], new=FORMATS[number],
        ))  # fmt: skip
    return folder


@pytest.fixture(params=["lenses", "functions"])
def bodies(request: Any) -> list[str]:
    return LENSES if request.param == "lenses" else [LENSES[0], BY_HAND, *LENSES[2:]]


def squashed(folder: ScriptFolder, revision: str = "r3", **how: Any) -> Squash:
    return new("items", squash=revision, migrations=folder.directory, **how)


def made(folder: ScriptFolder, source: str, target: str, values: list[Any]) -> list[Any]:
    path = folder.lineage("items").path(source, target)
    return [path.steps[-1].format.encode(path.apply(copy.deepcopy(each))) for each in values]


def test_one_script_makes_of_every_value_what_all_of_them_made(tmp_path, bodies):
    folder = scripts(tmp_path, bodies)
    old, new_ = (Struct(FORMATS[number]) for number in (0, 4))
    values = [each for each in made_up_values(old) if each["cents"] != -(2**63)]
    up, back = made(folder, "base", "r4", values), made_up_values(new_)
    back = [each for each in back if each["amount"] is None or abs(each["amount"]) < 10**15]
    down = made(folder, "r4", "base", back)
    found = squashed(folder, apply=True, **UNKNOWN)
    assert found.written
    assert found.is_declared == (bodies is LENSES)
    assert folder.lineage("items").revisions == ("base", "r3", "r4")
    assert made(folder, "base", "r4", values) == up
    assert made(folder, "r4", "base", back) == down
    assert sorted(each.name for each in folder.versions.glob("*.py")) == [
        "r3_step.py", "r4_step.py",
    ]  # fmt: skip
    copies = sorted(each.name for each in (folder.directory / "squashed").glob("items*"))
    assert copies == ["items_r1.py", "items_r2.py", "items_r3.py"]
    assert check(migrations=folder.directory).passed


def test_a_field_that_comes_and_goes_within_one_script_is_no_field_of_it(tmp_path):
    came_and_went = 'change = lens(rename("name", "title"), add("seen", "TIMESTAMP"), drop("seen"))'
    folder = scripts(tmp_path, [came_and_went])
    (migration,) = folder.lineage("items").migrations
    assert migration.drops == ()
    assert made(folder, "base", "r1", [{"cents": 1, "name": "lamp"}]) == [
        Struct(FORMATS[1]).encode({"cents": 1, "title": "lamp"})
    ]


def test_nothing_is_written_unless_asked(tmp_path, bodies):
    folder = scripts(tmp_path, bodies)
    before = {each: each.read_bytes() for each in folder.directory.rglob("*.py")}
    assert not squashed(folder).written
    assert {each: each.read_bytes() for each in folder.directory.rglob("*.py")} == before


def test_one_script_travels_to_where_no_scripts_are(tmp_path, bodies):
    folder = scripts(tmp_path, bodies)
    squashed(folder, apply=True, **UNKNOWN)
    path = folder.lineage("items").path("base", "r4")
    (tmp_path / "path").write_bytes(cloudpickle.dumps(path))
    folder.directory.rename(tmp_path / "gone")
    code = (
        f"import pickle; p = pickle.load(open({str(tmp_path / 'path')!r}, 'rb'));"
        "print(p.apply({'cents': 105, 'name': 'lamp'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'amount': Decimal('1.05'), 'label': 'lamp'" in done.stdout
    assert pickle.dumps(done.stdout)


def checkpoint(root: Path, revision: str, applied: dict[str, str], **how: Any) -> Path:
    number = 0 if revision == "base" else int(revision[1:])
    name = "items" if revision == "base" else f"items@{revision}"
    fmt = Struct(FORMATS[number])
    family = StoredFamily(name, revision, fmt)
    values = [
        each for each in made_up_values(fmt) if "cents" not in each or each["cents"] != -(2**63)
    ]
    return checkpoints.items(
        root, 10, applied=applied, family=family, value=lambda n: values[n % len(values)], **how
    )


def entries(root: Path, folder: ScriptFolder) -> list[Any]:
    with open_state(root, migrations=folder.directory) as state:
        return sorted(state["items"].entries(), key=repr)


@pytest.mark.parametrize("revision", ["base", "r3", "r4"])
def test_a_checkpoint_that_is_not_behind_reads_as_before(tmp_path, bodies, revision):
    folder = scripts(tmp_path, bodies)
    applied = {each.revision: each.checksum for each in folder.lineage("items").migrations}
    root = checkpoint(tmp_path, revision, applied)
    before = entries(root, folder)
    found = squashed(folder, apply=True, checkpoints={"items": root})
    assert (found.known, found.unknown) == (("items",), ())
    assert repr(entries(root, folder)) == repr(before)
    assert check(migrations=folder.directory, checkpoint=root).passed
    write_applied(folder.directory, {"items": applied})
    assert check(migrations=folder.directory).passed


@pytest.mark.parametrize("revision", ["r1", "r2"])
def test_a_checkpoint_that_is_behind_keeps_its_scripts(tmp_path, bodies, revision):
    folder = scripts(tmp_path, bodies)
    root = checkpoint(tmp_path, revision, {})
    with pytest.raises(ScriptError) as raised:
        squashed(folder, apply=True, checkpoints={"items": root})
    assert raised.value.code == "SM-SCRIPT-040"
    assert raised.value.data["path"] == str(root)
    assert len(folder.lineage("items").migrations) == 4
    assert squashed(folder, "r2" if revision == "r2" else "head",
                    checkpoints={}, **UNKNOWN).replaces[0] == "r1"  # fmt: skip


def test_complements_keep_their_scripts(tmp_path):
    folder = scripts(tmp_path, LENSES)
    root = checkpoint(tmp_path, "r4", {}, complement=complement_of("items"))
    with pytest.raises(ScriptError) as raised:
        squashed(folder, apply=True, checkpoints={"items": root})
    assert raised.value.code == "SM-SCRIPT-040"
    assert "--complement" in raised.value.next_action


def test_checkpoints_that_nobody_knows_are_asked_about(tmp_path):
    folder = scripts(tmp_path, LENSES)
    assert squashed(folder).unknown == ("unknown",)
    gone = {"gone": tmp_path / "no checkpoint"}
    assert squashed(folder, checkpoints=gone).unknown == ("gone",)
    for how in ({}, {"checkpoints": gone}):
        with pytest.raises(ScriptError) as raised:
            squashed(folder, apply=True, **how)
        assert raised.value.code == "SM-SCRIPT-040"
    assert squashed(folder, apply=True, checkpoints=gone, accept_unknown=("gone",)).written


class KilledError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("operation", range(9))
def test_a_squash_that_is_killed_leaves_the_old_chain_or_the_new_one(
    tmp_path, bodies, operation, monkeypatch
):
    folder = scripts(tmp_path, bodies)
    values = [{"cents": 105, "name": "lamp"}]
    expected = made(folder, "base", "r4", values)
    done = []

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if len(done) == operation:
                raise KilledError
            done.append(function)
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(squashing, "replacing", counted(squashing.replacing))
        patched.setattr(Path, "unlink", counted(Path.unlink))
        try:
            squashed(folder, apply=True, **UNKNOWN)
        except KilledError:
            assert operation < 7
        else:
            assert operation >= 7
    assert made(folder, "base", "r4", values) == expected
    assert check(migrations=folder.directory).passed
    if operation < 7:
        assert squashed(folder, apply=True, **UNKNOWN).written
    assert folder.lineage("items").revisions == ("base", "r3", "r4")
    assert len(list(folder.versions.glob("*.py"))) == 2
    assert made(folder, "base", "r4", values) == expected


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (1, LENSES[1] + "\n\n\ndef rekey(key, value):\n    return key"),
        (1, "# QUESTION: is it so?\n" + LENSES[1]),
        (1, LENSES[1] + '\ntime_to_live = "restart"'),
    ],
)
def test_scripts_of_another_kind_are_not_squashed(tmp_path, number, body):
    changed = [*LENSES]
    changed[number] = body.replace("def rekey", 'new_key = Struct("id INT")\n\n\ndef rekey')
    folder = scripts(tmp_path, changed)
    with pytest.raises(ScriptError) as raised:
        squashed(folder)
    assert raised.value.code == "SM-SCRIPT-039"


def test_one_script_alone_is_not_squashed(tmp_path):
    folder = scripts(tmp_path, LENSES)
    with pytest.raises(ScriptError) as raised:
        squashed(folder, "r1")
    assert raised.value.code == "SM-SCRIPT-039"


def test_a_squash_can_be_squashed_again(tmp_path, bodies):
    folder = scripts(tmp_path, bodies)
    values = [{"cents": 105, "name": "lamp"}, {"cents": None, "name": None}]
    expected = made(folder, "base", "r4", values)
    squashed(folder, apply=True, **UNKNOWN)
    found = squashed(folder, "head", apply=True, **UNKNOWN)
    assert found.replaces == ("r3", "r4")
    assert folder.lineage("items").revisions == ("base", "r4")
    assert made(folder, "base", "r4", values) == expected
    assert check(migrations=folder.directory).passed


def test_a_copy_that_was_edited_is_found(tmp_path):
    folder = scripts(tmp_path, [LENSES[0], BY_HAND, *LENSES[2:]])
    squashed(folder, apply=True, **UNKNOWN)
    path = folder.directory / "squashed" / "items_r2.py"
    path.write_text(path.read_text().replace("scaleb(-2)", "scaleb(-3)"))
    (finding,) = check(migrations=folder.directory).findings
    assert (finding.kind, finding.path) == ("applied", str(path))


def test_an_applied_script_that_was_edited_before_it_was_squashed_is_found(tmp_path):
    folder = scripts(tmp_path, LENSES)
    applied = {each.revision: each.checksum for each in folder.lineage("items").migrations}
    write_applied(folder.directory, {"items": {**applied, "r2": "f" * 64}})
    squashed(folder, apply=True, **UNKNOWN)
    (finding,) = check(migrations=folder.directory).findings
    assert (finding.kind, finding.revision) == ("applied", "r2")
