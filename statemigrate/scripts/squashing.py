"""Several scripts of a store as one: its text, and the copies of those that it stands for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statemigrate import lenses
from statemigrate.errors import ScriptError
from statemigrate.migration import Lineage, Migration, takes_key
from statemigrate.scripts.loading import Script
from statemigrate.scripts.source import assignment, in_docstring, quoted

FOLDER = "squashed"
"""The package next to ``versions`` with the scripts that were squashed."""
_ONLY_REWRITING = ("new_key", "rekey", "merge", "upgrade_table")


@dataclass(frozen=True)
class SquashedScript:
    """A script that is squashed, and the file that it is copied to."""

    script: Script
    migration: Migration

    @property
    def module(self) -> str:
        """The name of its copy as a module of the package."""
        store = re.sub(r"\W", "_", self.migration.store)
        # One that stands for others calls the copy that has its revision.
        first = next(iter(self.migration.replaces), None)
        since = "" if first is None else f"{first}_to_"
        return f"{store}_{since}{self.migration.revision}"


def parts_up_to(
    lineage: Lineage, revision: str, scripts: Sequence[Script]
) -> tuple[SquashedScript, ...]:
    """The scripts up to ``revision`` that one can take the place of, oldest first.

    A baseline is not among them: a checkpoint's oldest family has its name by it. Raises
    `ScriptError` for a script that cannot be squashed, and for fewer than two.
    """
    by_path = {str(each.path): each for each in scripts}
    found = tuple(
        SquashedScript(by_path[each.path], each)
        for each in lineage.applied(revision)
        if not each.is_baseline
    )
    if len(found) < 2:
        raise _refused(lineage.store, f"{len(found)} scripts with functions up to {revision}")
    for part in found:
        _check(part.migration)
    if len({part.migration.time_to_live for part in found}) > 1:
        raise _refused(lineage.store, "scripts that differ in `time_to_live`")
    return found


def _check(migration: Migration) -> None:
    written = [
        name
        for name in _ONLY_REWRITING
        if getattr(migration, name) is not None
        and not (name == "upgrade_table" and migration.change is not None)
    ]
    functions = (migration.upgrade, migration.downgrade)
    problem = None
    if written:
        problem = f"`{written[0]}`, which is for a rewrite"
    elif any(each is not None and takes_key(each) for each in functions):
        problem = "a function that takes the key"
    elif migration.questions:
        problem = "an open question"
    if problem is not None:
        raise _refused(migration.store, f"{problem}, in {migration.where}", migration.revision)


def _refused(store: str, found: str, revision: str | None = None) -> ScriptError:
    return ScriptError(
        "SM-SCRIPT-039",
        f"The scripts of store '{store}' cannot be squashed.",
        expected="two scripts or more, each with lenses or with functions of one value, no "
        "question open, and one `time_to_live`",
        found=found,
        next_action="squash up to an older revision, or leave them as they are",
        store=store,
        revision=revision,
    )


def of_lenses(parts: Sequence[SquashedScript]) -> str | None:
    """One script with the lenses of all; None if one has no lenses, or lenses that name functions.

    It has to be proven equal: what lies between two scripts is not checked any more.
    """
    calls: list[str] = []
    names: set[str] = set()
    for part in parts:
        written = _lenses_of(part)
        if written is None:
            return None
        for each in written:
            used = {node.id for node in ast.walk(each) if isinstance(node, ast.Name)}
            if any(not hasattr(lenses, name) for name in used):
                return None
            names |= used
            calls.append(ast.unparse(each))
    body = "".join(f"    {each},\n" for each in calls)
    imports = f"from statemigrate.lenses import {', '.join(sorted({'lens', *names}))}"
    return _text(parts, [imports], f"change = lens(\n{body})")


def _lenses_of(part: SquashedScript) -> list[ast.expr] | None:
    """The arguments of a script's ``change = lens(...)``."""
    if part.migration.change is None:
        return None
    for each in ast.parse(part.script.source).body:
        match each:
            case ast.Assign(
                targets=[ast.Name(id="change")],
                value=ast.Call(func=ast.Name(id="lens"), args=arguments, keywords=[]),
            ) if not any(isinstance(one, ast.Starred) for one in arguments):
                return arguments
    return None


def of_functions(parts: Sequence[SquashedScript]) -> str:
    """One script that calls the functions of all, one after the other, from their copies."""
    imports, statements = [], []
    has_back = all(part.migration.downgrade is not None for part in parts)
    lines = {"upgrade": ["def upgrade(value: Value) -> Value:"], "downgrade": []}
    if has_back:
        lines["downgrade"] = ["def downgrade(value: Value) -> Value:"]
    names = [f"_{part.migration.revision}" for part in parts]
    for part, name in zip(parts, names, strict=True):
        module, formats = f"{FOLDER}.{part.module}", f"old as old{name}"
        if part.migration.change is not None:
            imports.append(f"from {module} import change as change{name}, {formats}")
            new = assignment("new", part.migration.new)
            statements += [
                new.replace("new = ", f"new{name} = ", 1),
                f"lenses{name} = Change.of(change{name}, old{name}, new{name})",
                f"upgrade{name}, downgrade{name} = lenses{name}.upgrade, lenses{name}.downgrade",
            ]
            continue
        back = f"downgrade as downgrade{name}, " if has_back else ""
        imports.append(
            f"from {module} import {back}new as new{name}, {formats}, upgrade as upgrade{name}"
        )
    ends = [f"new{name}" for name in names]
    starts = [f"old{name}" for name in names]
    for name, end in zip(names, ends, strict=True):
        lines["upgrade"].append(f"    value = {end}.conform(upgrade{name}(value))")
    for name, start in reversed([*zip(names, starts, strict=True)]) if has_back else ():
        lines["downgrade"].append(f"    value = {start}.conform(downgrade{name}(value))")
    functions = ["\n".join([*each, "    return value"]) for each in lines.values() if each]
    if statements:
        imports.append("from statemigrate.lenses import Change")
    code = ["\n".join(statements)] if statements else []
    return _text(parts, imports, "\n\n\n".join([*code, *functions]), is_called=True)


def _text(
    parts: Sequence[SquashedScript], imports: Sequence[str], code: str, is_called: bool = False
) -> str:
    first, last = parts[0].migration, parts[-1].migration
    assert first.old is not None, "no baseline is squashed"  # noqa: S101
    kinds = {type(each).__name__ for each in (first.old, last.new)}
    if is_called:
        kinds |= {type(each.migration.new).__name__ for each in parts} | {"Value"}
    label = None if first.down_revision else f"({quoted(first.store)},)"
    down = None if first.down_revision is None else quoted(first.down_revision)
    replaces = "".join(
        f"    {quoted(revision)}: {quoted(checksum)},\n"
        for part in parts
        for revision, checksum in {
            **part.migration.replaces,
            part.migration.revision: part.script.checksum,
        }.items()
    )
    formats = (first.old, last.new)
    drops = _drops(parts) if is_called else ()
    dropped = [f"drops = ({', '.join(map(quoted, drops))},)"] if drops else []
    lasting = [] if last.time_to_live == "keep" else [f"time_to_live = {quoted(last.time_to_live)}"]
    summary = in_docstring(f"Scripts {first.revision} to {last.revision} as one")
    return "\n".join(
        [
            f'"""{summary}.',
            "",
            f"Revision ID: {last.revision}",
            f"Revises: {first.down_revision or 'base'}",
            f"Create Date: {parts[-1].script.created}",
            '"""',
            "",
            *(each for each in imports if each.startswith(f"from {FOLDER}")),
            *([""] if is_called else []),
            f"from statemigrate.formats import {', '.join(sorted(kinds))}",
            *(each for each in imports if not each.startswith(f"from {FOLDER}")),
            "",
            f"revision = {quoted(last.revision)}",
            f"down_revision = {down}",
            f"branch_labels = {label}",
            f"store = {quoted(first.store)}",
            "",
            f"# The scripts that were squashed into this one, with their checksums: see {FOLDER}/.",
            f"replaces = {{\n{replaces}}}",
            "",
            assignment("old", formats[0]),
            assignment("new", formats[1]),
            *dropped,
            *lasting,
            "",
            "",
            code,
            "",
        ]
    )


def _drops(parts: Sequence[SquashedScript]) -> tuple[str, ...]:
    """What one of them loses on purpose, of the fields that the formats at both ends have."""
    from statemigrate.formats.schema import field_paths

    first, last = parts[0].migration.old, parts[-1].migration.new
    ends = [each for each in (first, last) if each is not None]
    known = field_paths(*(each.schema for each in ends))
    names = dict.fromkeys(name for part in parts for name in part.migration.drops)
    return tuple(name for name in names if name in known)


def copied_files(directory: Path, parts: Sequence[SquashedScript]) -> dict[Path, bytes]:
    """The files of the package with the scripts that are squashed."""
    folder = directory / FOLDER
    found = {folder / "__init__.py": b'"""Scripts that were squashed into others."""\n'}
    for part in parts:
        found[folder / f"{part.module}.py"] = part.script.path.read_bytes()
    return found
