"""Measure the structure of the package: `python scripts/measure_structure.py`.

Prints the table of CONTRIBUTING.md for the code as it stands. It reads the syntax trees and runs
nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PACKAGE = "statemigrate"
PRIVATE_WORDS = {
    "told",
    "tell",
    "said",
    "seen",
    "held",
    "holds",
    "kept",
    "mine",
    "beside",
    "fate",
    "apart",
    "course",
    "moment",
    "moments",
    "place",
    "places",
    "standing",
    "noting",
    "logbook",
    "lately",
    "leftovers",
    "astray",
    "woven",
    "weaving",
    "patience",
    "presence",
    "proof",
    "unasked",
    "likeness",
    "crossing",
    "straight",
    "together",
    "gathered",
}
"""Words of our own, for which the field has others."""
VERBS = ("backfill", "rewrite", "status")


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    path: Path

    @property
    def name(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(TOP).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        """What is in it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")

    @property
    def import_lines(self) -> int:
        """How many of them are imports."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        return sum((each.end_lineno or each.lineno) - each.lineno + 1 for each in found)

    @property
    def definitions(self) -> list[str]:
        """The names of its classes and functions."""
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return [node.name for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def classes(self) -> list[str]:
        """The names of its classes."""
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @property
    def asserts(self) -> int:
        """How many ``assert`` statements it has."""
        return sum(isinstance(node, ast.Assert) for node in ast.walk(self.tree))

    @cached_property
    def gives(self) -> dict[str, str]:
        """The names that it gives as a face which loads late, and the module that each is from."""
        return {
            alias.name: str(node.module)
            for choice in self.tree.body
            if isinstance(choice, ast.If) and choice.orelse
            for node in choice.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    @property
    def imported(self) -> Iterator[tuple[str, str]]:
        """What it imports from the package, at any depth of its code: a module, and a name in it.

        Importing the package is importing none of its modules: its public names load late.
        """
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
                yield from ((str(node.module), a.name) for a in node.names)
            elif isinstance(node, ast.Import):
                yield from ((a.name, "") for a in node.names if a.name.startswith(f"{PACKAGE}."))


def words_of(name: str) -> set[str]:
    """The words of a name in snake or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def loaded(modules: dict[str, Module], begin: str) -> Iterator[str]:
    """The modules that the imports of one load. Of a face which loads late, those of the names."""
    for source, name in modules[begin].imported:
        if modules[begin].gives.get(name) == source:
            continue
        at = source
        yield at
        while at in modules and name in modules[at].gives:
            at = modules[at].gives[name]
            yield at
        yield f"{at}.{name}"


def reached(modules: dict[str, Module], begin: str) -> int:
    """How many modules one of them imports, through others too."""
    seen, waiting = {begin}, [begin]
    while waiting:
        fresh = {name for name in loaded(modules, waiting.pop()) if name in modules} - seen
        seen |= fresh
        waiting += fresh
    return len(seen) - 1


def rows(modules: dict[str, Module]) -> list[tuple[str, str]]:
    """What is measured, and the figure."""
    each = list(modules.values())
    lines = sum(module.lines for module in each)
    named = Counter(module.path.name for module in each if module.path.name != "__init__.py")
    defined = Counter(name for module in each for name in module.classes)
    private = {
        module.name: [n for n in module.definitions if words_of(n) & PRIVATE_WORDS]
        for module in each
    }
    rewriting = [m for m in each if m.name.startswith(f"{PACKAGE}.rewrite")]
    commands = {name.rpartition(".")[2]: name for name in modules if ".commands." in name}
    return [
        ("modules", f"{len(each)}"),
        ("lines", f"{lines:,}"),
        ("lines a module, median", f"{sorted(module.lines for module in each)[len(each) // 2]}"),
        ("imports, % of lines", f"{100 * sum(m.import_lines for m in each) / lines:.1f}"),
        (
            "classes and functions with a private word in their name",
            f"{sum(map(len, private.values()))}, in {sum(map(bool, private.values()))} modules",
        ),
        ("files whose name is used more than once", f"{sum(n for n in named.values() if n > 1)}"),
        ("class names defined more than once", f"{sum(n > 1 for n in defined.values())}"),
        ("asserts in `rewrite/`", f"{sum(module.asserts for module in rewriting)}"),
        *(
            (f"modules that `{verb}` imports, directly or not", f"{reached(modules, at)}")
            for verb in VERBS
            for at in (commands.get(verb),)
            if at is not None
        ),
    ]


def main() -> None:
    """Print the table."""
    found = map(Module, sorted((TOP / PACKAGE).rglob("*.py")))
    print("| what | now |\n|---|---|")  # noqa: T201
    for what, figure in rows({module.name: module for module in found}):
        print(f"| {what} | {figure} |")  # noqa: T201


if __name__ == "__main__":
    main()
