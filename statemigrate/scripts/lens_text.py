"""The text of a script with lenses in place of its two functions, where lenses do the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from statemigrate.errors import ScriptError
from statemigrate.migration import Migration, takes_key
from statemigrate.scripts.inference import library_imports
from statemigrate.scripts.lens_inference import LensCall, Name, Path, lens_source
from statemigrate.scripts.lens_proposal import HandWrittenPair, proposal
from statemigrate.scripts.loading import Script, load
from statemigrate.scripts.source import identifier, render

_FUNCTIONS = ("upgrade", "downgrade")
_ONLY_REWRITING = ("new_key", "rekey", "merge", "upgrade_table")


@dataclass(frozen=True)
class DeclaredScript:
    """A script as it is, and with lenses; ``script`` is the new text, loaded.

    Without a ``text`` it has fields that no lens was found for: ``open_fields`` says why.
    """

    revision: str
    path: FilePath
    before: str
    text: str | None
    script: Script | None
    open_fields: Mapping[str, str]


def declared(script: Script, migration: Migration, examples: Sequence[Any] = ()) -> DeclaredScript:
    """A script with lenses that were found for its functions, nothing proven yet.

    ``examples`` are values that its state has. Raises `ScriptError` for a script that has no two
    functions for lenses to take the place of.
    """
    tree = ast.parse(script.source)
    _check(script, migration, tree)
    assert migration.old is not None and migration.upgrade is not None, "checked"  # noqa: S101, PT018
    expressions = _Expressions(tree, migration.downgrade is not None)
    pair = HandWrittenPair(
        migration.old,
        migration.new,
        migration.upgrade,
        migration.downgrade,
        tuple(_constants(tree)),
        (*examples, *(each.value for each in migration.examples)),
    )
    found = proposal(pair, expressions.names)
    if found.open_fields:
        before = script.source
        return DeclaredScript(
            migration.revision, script.path, before, None, None, found.open_fields
        )
    text = _Rewriting(script, tree).text(found.calls, expressions)
    loaded = load(script.path, text.encode())
    return DeclaredScript(migration.revision, script.path, script.source, text, loaded, {})


def _check(script: Script, migration: Migration, tree: ast.Module) -> None:
    found = None
    if migration.change is not None:
        found = "`change`: it is declared already"
    elif migration.is_baseline or migration.upgrade is None:
        found = "no `upgrade`"
    elif others := [name for name in _ONLY_REWRITING if getattr(migration, name) is not None]:
        found = f"`{others[0]}`, which is for a rewrite"
    elif any(each is not None and takes_key(each) for each in (migration.upgrade,)):
        found = "an `upgrade` that takes the key"
    else:
        defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
        missing = [
            name
            for name in _FUNCTIONS
            if getattr(migration, name) is not None and name not in defined
        ]
        found = f"`{missing[0]}` that is not defined here" if missing else None
    if found is not None:
        raise ScriptError(
            "SM-SCRIPT-037",
            f"{script.path} has no functions that lenses can take the place of.",
            expected="`upgrade(value)`, and `downgrade(value)` if there is a way back, written in "
            "the script",
            found=found,
            next_action="leave the script as it is",
            path=str(script.path),
        )


def _constants(tree: ast.Module) -> Iterator[Any]:
    """The texts and numbers that the code has, docstrings and formats apart."""
    for statement in tree.body:
        is_format = isinstance(statement, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id in ("old", "new") for each in statement.targets
        )
        if isinstance(statement, ast.Expr) or is_format:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and type(node.value) in (str, int):
                yield node.value


class _Expressions:
    """The expressions for single fields in functions that only return a dict."""

    def __init__(self, tree: ast.Module, has_back: bool) -> None:
        self._functions = {
            each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)
        }
        self._taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | set(
            self._functions
        )
        self._has_back = has_back
        self.sources: dict[str, str] = {}

    def names(self, new: Path, old: Path) -> tuple[str, str | None] | None:
        up = self._source("upgrade", new, old)
        down = self._source("downgrade", old, new) if self._has_back else None
        if up is None or (down is None and self._has_back):
            return None
        return self._named("upgrade", new, up), down and self._named("downgrade", new, down)

    def _named(self, kind: str, new: Path, expression: str) -> str:
        name = f"{kind}_{identifier('_'.join(new))}"
        while name in self._taken:
            name += "_"
        self.sources[name] = f"def {name}(value):\n    return {expression}"
        return name

    def _source(self, function: str, made: Path, taken: Path) -> str | None:
        found = self._functions.get(function)
        if found is None:
            return None
        body = found.body[1:] if ast.get_docstring(found) else found.body
        parameter = found.args.args[0].arg if found.args.args else ""
        match body:
            case [ast.Return(value=ast.Dict() as returned)]:
                expression = _entry(returned, made)
            case _:
                return None
        if expression is None:
            return None
        changed = _Substituted(parameter, taken).visit(
            ast.parse(ast.unparse(expression), mode="eval")
        )
        names = [each.id for each in ast.walk(changed) if isinstance(each, ast.Name)]
        others = [each for each in names if each == parameter and parameter != _VALUE]
        return None if others or _OTHER in names else ast.unparse(changed)


_VALUE = "value"
_OTHER = "other field"


class _Substituted(ast.NodeTransformer):
    """One field's value in the place of where a function reads it."""

    def __init__(self, parameter: str, path: Path) -> None:
        self._parameter, self._path = parameter, path

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:  # as ast has it
        path: list[Any] = []
        at: ast.expr = node
        while isinstance(at, ast.Subscript) and isinstance(at.slice, ast.Constant):
            path.insert(0, at.slice.value)
            at = at.value
        if isinstance(at, ast.Name) and at.id == self._parameter and tuple(path) == self._path:
            return ast.Name(_VALUE, ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:  # as ast has it
        # What else is read of the value is another field.
        return ast.Name(_OTHER, ast.Load()) if node.id == self._parameter else node


def _entry(returned: ast.Dict, path: Path) -> ast.expr | None:
    for key, value in zip(returned.keys, returned.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == path[0]:
            if len(path) == 1:
                return value
            return _entry(value, path[1:]) if isinstance(value, ast.Dict) else None
    return None


class _Rewriting:
    """A script's text, in which one statement takes the place of its functions."""

    def __init__(self, script: Script, tree: ast.Module) -> None:
        self._script, self._tree = script, tree
        self._lines = script.source.split("\n")

    def text(self, calls: Sequence[LensCall], expressions: _Expressions) -> str:
        change = f"change = {render(lens_source(calls))}"
        named = {name for each in calls for name in _functions_of(each)}
        written = [source for name, source in expressions.sources.items() if name in named]
        gone = [each for each in self._tree.body if _is_function(each)]
        rest = [each for each in self._tree.body if not _is_function(each)]
        parts = ["\n\n\n".join([*written, change]), *("" for _ in gone[1:])]
        edits = {_span(each): part for each, part in zip(gone, parts, strict=True)}
        edits |= self._unused_imports(rest, "\n".join(parts))
        names = sorted({"lens", *(name for each in calls for name in each.names)})
        at = self._after_imports()
        imports = [*self._missing_imports(change), f"from statemigrate.lenses import "
                   f"{', '.join(names)}"]  # fmt: skip
        lines = list(self._lines)
        for (first, last), part in sorted([*edits.items(), ((at, at - 1), "\n".join(imports))],
                                          reverse=True):  # fmt: skip
            lines[first : last + 1] = part.split("\n") if part else []
        text = "\n".join(lines).rstrip("\n") + "\n"
        while "\n\n\n\n" in text:
            text = text.replace("\n\n\n\n", "\n\n\n")
        self._prove(text, rest)
        return text

    def _after_imports(self) -> int:
        found = [each for each in self._tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
        return (found[-1].end_lineno or 0) if found else self._tree.body[0].end_lineno or 0

    def _missing_imports(self, change: str) -> list[str]:
        bound = {
            alias.asname or alias.name
            for each in self._tree.body
            if isinstance(each, ast.Import | ast.ImportFrom)
            for alias in each.names
        }
        lines = []
        for line in library_imports(change).split("\n") if library_imports(change) else ():
            module, _, names = line.removeprefix("from ").partition(" import ")
            needed = [name for name in names.split(", ") if name not in bound]
            lines += [f"from {module} import {', '.join(needed)}"] if needed else []
        return lines

    def _unused_imports(self, rest: Sequence[ast.stmt], added: str) -> dict[tuple[int, int], str]:
        """The lines of imports that only the functions used, and what stays of each."""
        body = [each for each in rest if not isinstance(each, ast.Import | ast.ImportFrom)]
        still = _names_in([*body, *ast.parse(added).body])
        before = _names_in([each for each in self._tree.body if _is_function(each)])
        edits = {}
        for each in rest:
            if not isinstance(each, ast.Import | ast.ImportFrom):
                continue
            kept = [
                alias
                for alias in each.names
                if (name := (alias.asname or alias.name).partition(".")[0]) in still
                or name not in before
            ]
            if len(kept) < len(each.names):
                changed = type(each)(**{**vars(each), "names": kept}) if kept else None
                edits[_span(each)] = ast.unparse(changed) if changed else ""
        return edits

    def _prove(self, text: str, rest: Sequence[ast.stmt]) -> None:
        """Raise `ScriptError` unless all else of the script says what it said."""

        def outline(statements: Sequence[ast.stmt]) -> list[str]:
            return [
                ast.dump(each)
                for each in statements
                if not isinstance(each, ast.Import | ast.ImportFrom)
            ]

        kept = outline(rest)
        found = outline(ast.parse(text).body)
        remaining = [each for each in found if each in kept]
        if remaining != kept:
            raise ScriptError(
                "SM-SCRIPT-027",
                f"{self._script.path} was not changed: the new text is not what it should be.",
                expected="the script with lenses in place of its functions",
                found="another statement",
                next_action="please report this, with the script; nothing was written",
                path=str(self._script.path),
            )


def _is_function(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name in _FUNCTIONS


def _span(statement: ast.stmt) -> tuple[int, int]:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(each.lineno for each in decorators)])
    return first - 1, (statement.end_lineno or first) - 1


def _names_in(statements: Sequence[ast.stmt]) -> set[str]:
    return {node.id for each in statements for node in ast.walk(each) if isinstance(node, ast.Name)}


def _functions_of(call: LensCall) -> Iterator[str]:
    for each in call.arguments:
        if isinstance(each, Name):
            yield each.name
