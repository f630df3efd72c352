"""A branch of scripts put on top of another one's head: new text, and the proof of it.

Nothing is written here. What the author wrote stays as it is: formats and `down_revision` change,
and what the script does not know of the other branch is carried past its functions, and asked.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from statemigrate.errors import FormatError, ScriptError
from statemigrate.formats import FieldDifference, Format, MergeOutcome, merge
from statemigrate.lenses import Change
from statemigrate.migration import Migration
from statemigrate.scripts.generated_script import prove_formats
from statemigrate.scripts.loading import Script
from statemigrate.scripts.source import assignment, comment, quoted

_ONLY_REWRITING = "new_key", "rekey", "merge", "upgrade_table"
_QUESTIONS: dict[MergeOutcome, str] = {
    "added": "{name} is of {others} alone: is it kept as it is?",
    "kept": "{others} changed {name}, which this script removed: is it kept?",
    "removed": "{others} removed {name}, which this script still had: is it gone, or renamed?",
    "dropped": "this script removes {name}, which {others} left: is it still to go?",
    "changed": "{others} changed {name}: does what this script does with it still hold?",
    "both": "both this script and {others} changed {name}: it is as here; is that right?",
}
_REVISES = re.compile(r"^(\s*Revises:\s*).*?(\s*)$")


@dataclass(frozen=True)
class RebasedScript:
    """A script as it is and as it is to be; ``questions`` are those that stand in the new text."""

    revision: str
    path: Path
    before: str
    text: str
    old: Format
    new: Format
    questions: tuple[str, ...]

    def encoded(self) -> bytes:
        """The file's new content, in the encoding and with the line ends that it has."""
        data = self.path.read_bytes()
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        ends = "\r\n" if b"\r\n" in data else "\n"
        try:
            return self.text.replace("\n", ends).encode(encoding)
        except UnicodeEncodeError as error:
            raise _by_hand(self.path, f"an encoding that has not all characters: {error}") from None


def rebased(
    scripts: Sequence[tuple[Script, Migration]], onto: Migration, others: Sequence[str]
) -> tuple[RebasedScript, ...]:
    """The ``scripts`` of a branch, oldest first, on top of ``onto``.

    ``others`` are the revisions of the branch that they are put on. Raises `ScriptError` for a
    script that is not changed without its author: one for a rewrite alone, or of another form than
    `statemigrate new` gives them.
    """
    found, down, format_ = [], onto.revision, onto.new
    for script, migration in scripts:
        made = _Rebasing(script, migration, down, others).onto(format_)
        found.append(made)
        down, format_ = made.revision, made.new
    return tuple(found)


class _Rebasing:
    """One script on its way to another place in the chain."""

    def __init__(
        self, script: Script, migration: Migration, down: str, others: Sequence[str]
    ) -> None:
        self._script, self._migration, self._down = script, migration, down
        self._others = others[0] if len(others) == 1 else f"{others[0]} to {others[-1]}"
        self._tree = ast.parse(script.source)
        self._lines = script.source.split("\n")

    def onto(self, old: Format) -> RebasedScript:
        path, was = self._script.path, self._migration
        if was.old is None:
            raise _by_hand(path, "a baseline, which records a state of before all scripts")
        # What lenses derive is for live values, too.
        derived = () if was.change is None else ("upgrade_table",)
        only = [
            name
            for name in _ONLY_REWRITING
            if name not in derived and getattr(was, name) is not None
        ]
        if only:
            raise _by_hand(path, f"`{only[0]}`, which is for a rewrite and sees whole values")
        try:
            merged = merge(was.old, old, was.new)
        except FormatError as error:
            raise _by_hand(path, f"{error.summary} {error.found or ''}".strip()) from error
        new = merged.format if was.change is None else self._derived(was.change, old)
        carried = [each.path[0] for each in merged.differences if each.is_carried]
        wrapped = [name for name in ("upgrade", "downgrade") if self._may_wrap(name)]
        wrapped = wrapped if carried and "upgrade" in wrapped else []
        # A field that lenses do not name passes them: that one comes along is no question.
        asked = [
            each for each in merged.differences if not (was.change and each.outcome == "added")
        ]
        questions = {each: self._question(each) for each in asked}
        inside = [text for each, text in questions.items() if each.is_carried and wrapped]
        above = [text for text in questions.values() if text not in inside]
        formats = {"old": old, "new": new} if self._writes_new else {"old": old}
        edits = dict(self._assignments(formats, above))
        edits |= dict(self._docstring())
        edits |= {self._header(name): self._renamed(name) for name in wrapped}
        wrappers = [self._wrapper(name, carried, inside) for name in wrapped]
        text = "\n".join(self._edited(edits)).rstrip("\n") + "\n"
        text = "\n\n\n".join([text.rstrip("\n"), *wrappers]) + "\n" if wrappers else text
        self._prove(text, formats, wrapped, carried)
        source = self._script.source
        return RebasedScript(was.revision, path, source, text, old, new, (*above, *inside))

    @property
    def _writes_new(self) -> bool:
        """Whether the script says `new`, which lenses derive where it is left out."""
        written = any(_assigns(each, "new") for each in self._tree.body)
        return written or self._migration.change is None

    def _derived(self, change: Change, old: Format) -> Format:
        """What lenses make of another format."""
        try:
            return Change.of(change.chain, old).new
        except (ScriptError, FormatError) as error:
            problem = f"lenses that do not fit the other branch: {error.summary}"
            raise _by_hand(self._script.path, problem) from error

    def _question(self, each: FieldDifference) -> str:
        return _QUESTIONS[each.outcome].format(name=f"`{each.name}`", others=self._others)

    def _assignments(
        self, formats: dict[str, Format], questions: Sequence[str]
    ) -> Iterator[tuple[tuple[int, int], list[str]]]:
        """By the lines of a statement, what takes their place."""
        asked = [comment(f"QUESTION: {text}") for text in questions]
        written = {name: assignment(name, format_) for name, format_ in formats.items()}
        written["down_revision"] = f"down_revision = {quoted(self._down)}"
        if self._script.get("branch_labels") is not None:
            written["branch_labels"] = "branch_labels = None"
        place = "new" if "new" in formats else "old"
        for name, text in written.items():
            first, last, trailing = self._statement(name)
            lines = [*(asked if name == place else []), *text.split("\n")]
            lines[-1] += trailing if "#" not in lines[-1] else ""
            yield (first, last), lines

    def _statement(self, name: str) -> tuple[int, int, str]:
        """The lines of the one statement that assigns a name, and what stands behind it."""
        found = [each for each in self._tree.body if _assigns(each, name)]
        written = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ]
        if len(found) != 1 or len(written) != 1:
            raise _by_hand(self._script.path, f"{len(written)} assignments to `{name}`")
        statement = found[0]
        assert statement.end_lineno is not None  # noqa: S101 - of what was parsed
        assert statement.end_col_offset is not None  # noqa: S101
        first, last = statement.lineno - 1, statement.end_lineno - 1
        behind = self._lines[last].encode()[statement.end_col_offset :].decode().strip()
        if statement.col_offset or (behind and not behind.startswith("#")):
            raise _by_hand(self._script.path, f"other code in the lines of `{name}`")
        trailing = f"  {behind}" if behind and "noqa" not in behind else ""
        return first, last, trailing

    def _docstring(self) -> Iterator[tuple[tuple[int, int], list[str]]]:
        if ast.get_docstring(self._tree, clean=False) is None:
            return
        docstring = self._tree.body[0]
        for number in range(docstring.lineno - 1, docstring.end_lineno or 0):
            changed = _REVISES.sub(rf"\g<1>{self._down}\g<2>", self._lines[number])
            if changed != self._lines[number]:
                yield (number, number), [changed]

    def _may_wrap(self, name: str) -> bool:
        """Whether a script has a plain function of that name, which nothing in it calls."""
        if getattr(self._migration, name) is None:
            return False
        same_name = [each for each in self._tree.body if getattr(each, "name", None) == name]
        calls = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n.id == name]
        match same_name:
            case [ast.FunctionDef(decorator_list=[]) as function] if not calls:
                arguments = function.args
                plain = not (
                    arguments.vararg or arguments.kwarg or arguments.kwonlyargs
                    or arguments.defaults
                )  # fmt: skip
                count = len(arguments.posonlyargs) + len(arguments.args)
                line = self._lines[function.lineno - 1]
                return plain and count in (1, 2) and line.startswith(f"def {name}(")
        return False

    def _function(self, name: str) -> ast.FunctionDef:
        return next(
            each
            for each in self._tree.body
            if isinstance(each, ast.FunctionDef) and each.name == name
        )

    def _header(self, name: str) -> tuple[int, int]:
        line = self._function(name).lineno - 1
        return line, line

    def _renamed(self, name: str) -> list[str]:
        line = self._lines[self._header(name)[0]]
        return [line.replace(f"def {name}(", f"def {self._inner(name)}(", 1)]

    def _inner(self, name: str) -> str:
        """A name that the script has not: it may be put on top of others more than once."""
        taken = {getattr(each, "name", None) for each in self._tree.body}
        inner, number = f"{name}_before_rebase", 1
        while inner in taken:
            number += 1
            inner = f"{name}_before_rebase_{number}"
        return inner

    def _wrapper(self, name: str, carried: Sequence[str], questions: Sequence[str]) -> str:
        arguments = self._function(name).args
        has_key = len(arguments.posonlyargs) + len(arguments.args) == 2
        given = "value, key" if has_key else "value"
        asked = [f"    {comment(f'QUESTION: {text}')}" for text in questions]
        fields = [f"        {quoted(each)}: value[{quoted(each)}]," for each in carried]
        return "\n".join(
            [
                f"def {name}({given}):",
                *(asked if name == "upgrade" else []),
                f"    # What {name} of before does not know goes past it.",
                "    kept = {",
                *fields,
                "    }",
                f"    return {{**{self._inner(name)}({given}), **kept}}",
            ]
        )

    def _edited(self, edits: dict[tuple[int, int], list[str]]) -> list[str]:
        lines = list(self._lines)
        for (first, last), changed in sorted(edits.items(), reverse=True):
            lines[first : last + 1] = changed
        return lines

    def _prove(
        self,
        text: str,
        formats: dict[str, Format],
        wrapped: Sequence[str],
        carried: Sequence[str],
    ) -> None:
        """Raise `ScriptError` unless the text says what was there, and what was to be changed."""
        prove_formats(text.encode("utf-8", "surrogatepass"), formats)
        tree = ast.parse(text)
        added = tree.body[len(tree.body) - len(wrapped) :] if wrapped else []
        inner = {self._inner(name): name for name in wrapped}
        rest = tree.body[: len(tree.body) - len(added)]
        for each in rest:
            if isinstance(each, ast.FunctionDef) and each.name in inner:
                each.name = inner[each.name]
        changed = {*formats, "down_revision", "branch_labels"}
        is_same = _outline(rest, changed) == _outline(self._tree.body, changed)
        values = [_value(each) for each in rest if _assigns(each, "down_revision")]
        kept = [_carried_fields(each) for each in added]
        if not is_same or values != [self._down] or kept != [list(carried)] * len(wrapped):
            raise ScriptError(
                "SM-SCRIPT-027",
                f"{self._script.path} was not changed: the new text is not what it should be.",
                expected="the script with other formats, and nothing else",
                found="another statement",
                next_action="please report this, with the script; nothing was written",
                path=str(self._script.path),
            )


def _outline(statements: Sequence[ast.stmt], changed: set[str]) -> list[str]:
    return [
        ast.dump(each)
        for number, each in enumerate(statements)
        if not any(_assigns(each, name) for name in changed)
        and not (number == 0 and isinstance(each, ast.Expr))
    ]


def _assigns(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found)):
            return found == name
    return False


def _value(statement: ast.stmt) -> object:
    value = getattr(statement, "value", None)
    return value.value if isinstance(value, ast.Constant) else None


def _carried_fields(function: ast.stmt) -> list[object]:
    """The fields that a wrapper carries past its function."""
    assigned = next(each for each in ast.walk(function) if isinstance(each, ast.Assign))
    match assigned.value:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return [_pair(key, value) for key, value in pairs]
    return []


def _pair(key: ast.expr | None, value: ast.expr) -> object:
    match key, value:
        case (
            ast.Constant(value=name),
            ast.Subscript(value=ast.Name(id="value"), slice=ast.Constant(value=source)),
        ) if name == source:
            return name
    return None


def _by_hand(path: Path, found: str) -> ScriptError:
    return ScriptError(
        "SM-SCRIPT-028",
        f"{path} cannot be put on top of other scripts without its author.",
        expected="a script of one value's formats and functions, as `statemigrate new` writes it",
        found=found,
        next_action="rebase the other branch, with --onto; or by hand: set `down_revision` to the "
        "other head, `old` to that head's `new`, and carry its fields through `new` and the "
        "functions",
        path=str(path),
    )
