"""Scripts, squashes and edits in any order: values read as by the chain that never changed."""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from statemigrate import check, new
from statemigrate.errors import StatemigrateError
from statemigrate.formats import Struct
from statemigrate.formats.examples import made_up_values
from statemigrate.scripts import ScriptFolder

TYPES = ("BIGINT", "STRING", "ARRAY<STRING>")
KINDS = st.sampled_from(["rename", "add", "drop"])
FUNCTIONS = """def upgrade(value):
    return {up}


def downgrade(value):
    return {down}"""


def text_of(fields: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in fields.items())


class Squashes(RuleBasedStateMachine):
    """One folder is squashed now and then; the ``model`` has the same scripts, each as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.folder = ScriptFolder.create(self.root / "migrations")
        self.model = ScriptFolder.create(self.root / "model")
        self.fields = {"n": "BIGINT", "name": "STRING"}
        self.names = 0
        self.by_hand: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        path = self.written(new=Struct(text_of(self.fields)), baseline=True)
        shutil.copy(path, self.model.versions / path.name)

    def written(self, **how: Any) -> Path:
        return new("items", "a step", migrations=self.folder.directory, **how).path

    def fresh(self) -> str:
        self.names += 1
        return f"f{self.names}"

    @rule(kind=KINDS, place=st.integers(0, 9), type_=st.sampled_from(TYPES), hand=st.booleans())
    def write_script(self, kind: str, place: int, type_: str, hand: bool) -> None:
        if kind == "drop" and len(self.fields) < 3:
            kind = "add"
        names = [*self.fields]
        old, made = names[place % len(names)], self.fresh()
        match kind:
            case "rename":
                after = {made if name == old else name: t for name, t in self.fields.items()}
            case "add":
                after = {**self.fields, made: type_}
            case _:
                after = {name: t for name, t in self.fields.items() if name != old}
        renames = {old: made} if kind == "rename" else None
        if hand:
            path = self.written(new=Struct(text_of(after)), lens=False)
            source = {name: name for name in after} | ({made: old} if renames else {})
            up = {each: source[each] if source[each] in self.fields else None for each in after}
            back = {origin: name for name, origin in up.items()}
            down = {name: back.get(name) for name in self.fields}
            functions = FUNCTIONS.format(up=literal(up), down=literal(down))
            text = path.read_text()
            path.write_text(re.sub(r"def upgrade.*", lambda _: functions, text, flags=re.DOTALL))
        else:
            path = self.written(new=Struct(text_of(after)), lens=True, rename=renames)
        answered = re.sub(r"[ ]*# QUESTION:.*(\n[ ]*#.*)*", "", path.read_text())
        path.write_text(answered)
        self.fields = after
        revision = self.folder.lineage("items").head
        if hand:
            self.by_hand.add(revision)
        shutil.copy(path, self.model.versions / path.name)

    @precondition(lambda self: len(self.revisions) > 3)
    @rule(place=st.integers(0, 9))
    def squash(self, place: int) -> None:
        # The first is the baseline's, and one script alone is not squashed.
        target = self.revisions[3 + place % (len(self.revisions) - 3)]
        how: dict[str, Any] = {"apply": True, "accept_unknown": ("unknown",)}
        assert new("items", squash=target, migrations=self.folder.directory, **how).written
        self.by_hand -= {each for each in self.by_hand if each not in self.revisions}
        self.by_hand.discard(target)

    @precondition(lambda self: self.by_hand)
    @rule(place=st.integers(0, 9))
    def put_lenses_in_place_of_functions(self, place: int) -> None:
        revision = sorted(self.by_hand)[place % len(self.by_hand)]
        new(edit=revision, lens=True, apply=True, migrations=self.folder.directory)
        self.by_hand.discard(revision)

    @property
    def revisions(self) -> tuple[str, ...]:
        return self.folder.lineage("items").revisions

    @invariant()
    def every_value_reads_as_by_all_scripts(self) -> None:
        if not self.model.stores():
            return
        lineage, model = self.folder.lineage("items"), self.model.lineage("items")
        assert lineage.head == model.head
        for revision in lineage.revisions[1:]:
            values = made_up_values(model.format_of(revision))[:4]
            self.compare(lineage, model, revision, lineage.head, values)
            values = made_up_values(model.format_of(model.head))[:4]
            self.compare(lineage, model, lineage.head, revision, values)

    def compare(self, lineage: Any, model: Any, source: str, target: str, values: Any) -> None:
        made = [applied(lineage, source, target, each) for each in values]
        assert made == [applied(model, source, target, each) for each in values]

    @invariant()
    def a_check_finds_nothing(self) -> None:
        found = check(migrations=self.folder.directory, made_up=False).findings
        assert [each for each in found if each.code] == []


def literal(fields: dict[str, str | None]) -> str:
    pairs = (f'"{n}": None' if o is None else f'"{n}": value["{o}"]' for n, o in fields.items())
    return "{" + ", ".join(pairs) + "}"


def applied(lineage: Any, source: str, target: str, value: Any) -> Any:
    try:
        path = lineage.path(source, target)
        return lineage.format_of(target).encode(path.apply(copy.deepcopy(value)))
    except StatemigrateError as error:
        return error.code


TestSquashes = pytest.mark.long(Squashes.TestCase)
TestSquashes.settings = settings(max_examples=6, stateful_step_count=8)
