"""Every room has a face, and the other rooms import only the names that it gives."""

import ast
import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import statemigrate
from statemigrate.faces import Face

TOP = Path(statemigrate.__file__).parent
CONTRACTS = TOP.parent / "pyproject.toml"
PATHS = {
    ".".join(path.relative_to(TOP.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(TOP.rglob("*.py"))
}
ROOMS = {name for name, path in PATHS.items() if path.name == "__init__.py"} - {TOP.name}
FACES = [name for name in sorted(ROOMS) if "make_face(" in PATHS[name].read_text(encoding="utf-8")]


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(PATHS[name].read_text(encoding="utf-8"))


def within(name: str, room: str) -> bool:
    return f"{name}.".startswith(f"{room}.")


def bound(statements: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module bind."""
    for each in statements:
        if isinstance(each, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in each.names)
        elif isinstance(each, ast.ClassDef | ast.FunctionDef):
            yield each.name
        elif isinstance(each, ast.Assign):
            yield from (node.id for t in each.targets for node in ast.walk(t) if _is_name(node))
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
        elif isinstance(each, ast.If | ast.Try):
            yield from bound(each.body)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


@cache
def imports(name: str) -> list[tuple[str, list[str]]]:
    """What a module imports of the package, at any depth of its code: from where, which names."""
    return [*imported(tree(name), name)]


def imported(tree: ast.Module, name: str) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            if within(node.module or "", TOP.name):
                yield node.module or "", [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if within(alias.name, TOP.name))


def faults(name: str) -> Iterator[str]:
    """Where a module goes past the face of a room that it is not in, or asks its own."""
    for source, names in imports(name):
        rooms = [room for room in ROOMS if within(source, room) and not within(name, room)]
        face = max(rooms, key=len, default=None)
        if face is None:
            if source in FACES:
                own = [each for each in names if f"{source}.{each}" not in PATHS]
                yield from (f"{name} has {each} of the face of its own room" for each in own)
        elif is_open(face, name):
            continue
        elif source != face:
            yield f"{name} imports {source}, past the face {face}"
        else:
            given = {*bound(tree(face).body)}
            yield from (f"{name}: {face} gives no {each}" for each in names if each not in given)


# Rooms that have no face of their own, and who imports their modules.
OPEN = {
    # The face of the commands is that of the package.
    "statemigrate.commands": ["statemigrate.cli", "statemigrate.demo", "statemigrate.stateful"],
    # Programs, whose files the demonstration copies and runs.
    "statemigrate.demo.jobs": ["statemigrate.demo"],
}


def is_open(room: str, name: str) -> bool:
    return any(within(name, each) for each in OPEN.get(room, ()))


def test_modules_import_other_rooms_only_by_their_faces():
    found = [fault for name in PATHS if name != TOP.name for fault in faults(name)]
    assert found == []


def test_no_checkpoint_asks_the_files_for_what_loads_spark():
    """The contract of import-linter leaves this out: it knows a face by all that it could load."""
    (ignored,) = [
        {each.rpartition(" ")[2] for each in contract["ignore_imports"]}
        for contract in tomllib.loads(CONTRACTS.read_text())["tool"]["importlinter"]["contracts"]
        if contract["name"] == "a checkpoint's files are read without Spark"
    ]
    homes = importlib.import_module("statemigrate.files")._homes
    assert ignored <= {*homes.values()}
    asked = {
        (name, each)
        for name in PATHS
        if within(name, "statemigrate.checkpoint")
        for source, names in imports(name)
        if source == "statemigrate.files"
        for each in names
    }
    assert asked
    assert [(name, each) for name, each in asked if homes[each] in ignored] == []


@pytest.mark.parametrize("face", [*FACES, TOP.name])
def test_a_face_gives_type_checkers_and_python_the_same_names(face):
    """And each is one that its module defines, or another face gives."""
    (choice,) = [each for each in tree(face).body if isinstance(each, ast.If)]
    for_checkers = {
        alias.name: each.module
        for each in choice.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }
    module = importlib.import_module(face)
    assert isinstance(module, Face)
    assert module._homes == for_checkers
    assert dir(module) == sorted(for_checkers)
    for name, home in for_checkers.items():
        own = [
            each
            for each in tree(home).body
            if home in ROOMS or not isinstance(each, ast.ImportFrom | ast.Import)
        ]
        assert name in bound(own), (name, home)


@pytest.mark.parametrize("face", [each for each in FACES if each != "statemigrate.formats"])
def test_a_face_gives_no_name_that_nobody_asks_for(face):
    """Migration scripts import formats too, and not from one list of names."""
    asked = {
        each
        for name in PATHS
        if not within(name, face)
        for source, names in imports(name)
        if source == face
        for each in names
    }
    assert {*importlib.import_module(face)._homes} - asked == set()


ALONE = """
import importlib, sys
for face in {faces!r}:
    module = importlib.import_module(face)
    below = [name for name in sys.modules if name.startswith(face + ".")]
    assert not set(below) - set({faces!r}), below
    try:
        module.no_such_name
    except AttributeError as error:
        assert str(error) == f"module {{face!r}} has no attribute 'no_such_name'"
    else:
        raise SystemExit("no error")
print("as it should be")
"""


def test_a_face_loads_no_module_before_one_asks_for_a_name():
    ran = subprocess.run(
        [sys.executable, "-c", ALONE.format(faces=FACES)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert (ran.stderr, ran.stdout) == ("", "as it should be\n")


def test_what_takes_the_place_of_a_name_in_its_module_is_found_through_the_face(monkeypatch):
    from statemigrate.checkpoint.logs import entries

    face, other = importlib.import_module("statemigrate.checkpoint.logs"), object()
    assert face.pinned is entries.pinned
    monkeypatch.setattr(entries, "pinned", other)
    assert face.pinned is other
