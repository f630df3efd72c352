"""Write the tables of `docs/architecture.md`: `python scripts/describe_architecture.py`.

It reads the syntax trees of the package and runs nothing. `make docs` calls it, and a test holds
that the page in the repository is what it writes.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs" / "architecture.md"
BEGIN = "<!-- The rest is written by scripts/describe_architecture.py. -->"
PACKAGE = "statemigrate"


@dataclass(frozen=True)
class Module:
    """One module, by its file."""

    path: Path

    @property
    def room(self) -> str:
        """The room it is in, or its own name where it stands beside the rooms."""
        first = self.path.relative_to(TOP / PACKAGE).parts[0]
        return first.removesuffix(".py")

    @property
    def name(self) -> str:
        """Its name below its room, with slashes."""
        parts = self.path.relative_to(TOP / PACKAGE).with_suffix("").parts
        return "/".join(parts[1:]) or parts[0]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (ast.get_docstring(self.tree) or "").partition("\n")[0]

    def imported_rooms(self) -> Iterator[str]:
        """The other rooms that it imports from, also within functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
                room = (node.module or "").split(".")[1]
                # Every face is made by it.
                if room not in (self.room, "faces"):
                    yield room


def written() -> str:
    """The page as it should be: the text above the marker as it stands, the tables below it."""
    text = PAGE.read_text(encoding="utf-8")
    above = text.partition(BEGIN)[0]
    return "\n".join([above + BEGIN, "", *_tables()]) + "\n"


def _tables() -> Iterable[str]:
    modules = [Module(path) for path in sorted((TOP / PACKAGE).rglob("*.py"))]
    rooms: dict[str, list[Module]] = {}
    for module in modules:
        rooms.setdefault(module.room, []).append(module)
    order = [room for room in _staircase() if room in rooms]
    yield from _overview(order, rooms)
    for room in order:
        yield from _room(room, rooms[room])


def _staircase() -> list[str]:
    """Every room from the top of the staircase to its foot, as import-linter has them."""
    config = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"].endswith("the staircase"))
    names = [name.strip() for layer in layers for name in layer.replace("|", ":").split(":")]
    return [name.removeprefix(f"{PACKAGE}.") for name in names]


def _overview(order: list[str], rooms: dict[str, list[Module]]) -> Iterator[str]:
    yield "## The rooms"
    yield ""
    yield "From the top of the staircase to its foot. A room imports only from rooms below it."
    yield ""
    yield "| room | what it is | modules | imports from |"
    yield "|---|---|---|---|"
    for room in order:
        used = {each for module in rooms[room] for each in module.imported_rooms()}
        below = ", ".join(each for each in order if each in used)
        yield f"| [{room}](#{room}) | {_summary(rooms[room])} | {len(rooms[room])} | {below} |"
    yield ""


def _summary(modules: list[Module]) -> str:
    face = next((each for each in modules if each.path.name == "__init__.py"), modules[0])
    return face.summary


def _room(room: str, modules: list[Module]) -> Iterator[str]:
    yield f"## {room}"
    yield ""
    yield "| module | what it has |"
    yield "|---|---|"
    for module in modules:
        if module.path.name != "__init__.py":
            yield f"| `{module.name}` | {module.summary.replace('|', '&#124;')} |"
    yield ""


def main() -> int:
    """Write the page, or with ``--check`` say whether it is up to date."""
    page = written()
    if "--check" in sys.argv[1:]:
        return int(page != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
