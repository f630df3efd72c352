"""`rebase`: one chain again, after two branches of a team were merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemigrate.errors import LineageError, ScriptError
from statemigrate.files import replacing
from statemigrate.migration import Fork, Migration, first_fork
from statemigrate.quoting import argument
from statemigrate.scripts import (
    RebasedScript,
    ScriptFolder,
    Survey,
    read_applied,
    rebased,
    write_head,
)
from statemigrate.state import applied_by


@dataclass(frozen=True)
class Rebase:
    """The changes, made or planned: ``scripts``, oldest first, follow ``onto``.

    ``written`` says whether they were made. ``next_action`` is the next step.
    """

    store: str
    onto: str
    scripts: tuple[RebasedScript, ...]
    written: bool
    next_action: str

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions of all scripts."""
        return tuple(text for each in self.scripts for text in each.questions)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "store": self.store,
            "onto": self.onto,
            "written": self.written,
            "scripts": [
                {
                    "revision": each.revision,
                    "path": str(each.path),
                    "text": each.text,
                    "questions": list(each.questions),
                }
                for each in self.scripts
            ],
            "next_action": self.next_action,
        }


def rebase(
    store: str,
    *,
    onto: str | None = None,
    apply: bool = False,
    migrations: str | Path = "migrations",
    checkpoint: str | Path | None = None,
) -> Rebase:
    """Put one of a store's two branches on top of the other's head, as after a merge in git.

    ``onto`` is the head of the branch that stays. By default that is the branch that was applied,
    according to ``applied.json`` or a ``checkpoint``, or else the one with the older first script.
    The scripts of the other branch follow it, and their `down_revision`, `old` and `new` are
    rewritten with the fields of both branches. Their functions pass on fields that they do not
    know. If only one branch has a field, or if both have changed it, the script gets a ``#
    QUESTION:``, and `statemigrate check` refuses it until you have answered.

    Without ``apply`` nothing is written. Raises `LineageError` for a store without two heads, for
    branches that were both applied, and for any other problem of the store's scripts; `ScriptError`
    for a script that only its author can change.
    """
    folder = ScriptFolder(migrations)
    found = folder.survey()
    fork = _fork(found, store)
    stays, moves = _sides(fork, onto, _applied(folder, store, checkpoint))
    scripts = {str(each.path): each for each in found.scripts}
    pairs = [(scripts[each.path], each) for each in moves]
    made = rebased(pairs, stays[-1], [each.revision for each in stays])
    if apply:
        _write(folder, store, made)
    return Rebase(store, stays[-1].revision, made, apply, _next(store, made, onto, apply))


def _fork(found: Survey, store: str) -> Fork:
    """Where the store's scripts part; nothing else may be wrong with them."""
    for fault in found.found_faults:
        if fault.store in (store, None) and "heads" not in fault.error.data:
            raise fault.error
    fork = first_fork([each for each in found.migrations if each.store == store])
    if fork is None:
        if store not in found.stores:
            raise found.unscripted(store)
        raise LineageError(
            "SM-LINEAGE-001",
            f"The scripts of store '{store}' are one chain.",
            expected="two heads, as after two branches were merged",
            found=f"the head {found.lineages[store].head}",
            next_action="nothing to do",
            store=store,
        )
    return fork


def _applied(folder: ScriptFolder, store: str, checkpoint: str | Path | None) -> Mapping[str, str]:
    """By revision where it was applied."""
    found = {
        revision: str(folder.directory / "applied.json")
        for revision in read_applied(folder.directory).get(store, {})
    }
    if checkpoint is not None:
        found |= dict.fromkeys(applied_by(str(checkpoint)).get(store, {}), str(checkpoint))
    return found


def _sides(
    fork: Fork, onto: str | None, applied: Mapping[str, str]
) -> tuple[Sequence[Migration], Sequence[Migration]]:
    """The branch that stays, and the one that moves."""
    used = [[each.revision for each in side if each.revision in applied] for side in fork]
    store = fork[0][0].store
    if all(used):
        raise LineageError(
            "SM-LINEAGE-002",
            f"Both branches of store '{store}' were applied.",
            expected="one that no state has seen, whose scripts may still change",
            found="; ".join(f"{each[-1]}, as {applied[each[-1]]} says" for each in used),
            next_action="keep each with the query that it was applied to: scripts in a folder of "
            "their own (--migrations), or another state variable",
            store=store,
            revisions=tuple(side[-1].revision for side in fork),
        )
    heads = [side[-1].revision for side in fork]
    if onto is None:
        return (fork[1], fork[0]) if used[1] else fork
    wanted = onto.removeprefix(f"{store}@")
    matching = [number for number, head in enumerate(heads) if wanted and head.startswith(wanted)]
    if len(matching) != 1:
        raise LineageError(
            "SM-LINEAGE-003",
            f"{onto!r} is not one of the two heads of store '{store}'.",
            expected=f"{heads[0]} or {heads[1]}",
            found=onto,
            next_action="name the head that stays as it is",
            store=store,
        )
    stays = matching[0]
    if used[1 - stays]:
        revision = used[1 - stays][-1]
        raise LineageError(
            "SM-LINEAGE-004",
            f"{revision} was applied, and must not change.",
            expected=f"--onto {heads[1 - stays]}, so that the other branch follows it",
            found=f"--onto {onto}; {revision} is in {applied[revision]}",
            next_action="leave --onto out",
            store=store,
            revision=revision,
        )
    return fork[stays], fork[1 - stays]


def _write(folder: ScriptFolder, store: str, made: Sequence[RebasedScript]) -> None:
    """Write all scripts, or none: what cannot be read afterwards is put back."""
    before = {each.path: each.path.read_bytes() for each in made}
    texts = {each.path: each.encoded() for each in made}
    try:
        for path, data in texts.items():
            _replace(path, data)
        found = folder.survey()
        _check_written(found, store)
        write_head(folder.directory, store, found)
    except BaseException:
        for path, data in before.items():
            _replace(path, data)
        raise


def _check_written(found: Survey, store: str) -> None:
    for fault in found.found_faults:
        if fault.store in (store, None) and "heads" not in fault.error.data:
            raise ScriptError(
                "SM-SCRIPT-001",
                f"The scripts of store '{store}' were left as they are.",
                expected="scripts that can be read after the change",
                found=fault.error.summary,
                next_action="see what is wrong there, or rebase the other branch, with --onto",
                store=store,
            )


def _replace(path: Path, data: bytes) -> None:
    with replacing(path) as stream:
        stream.write(data)


def _next(store: str, made: Sequence[RebasedScript], onto: str | None, apply: bool) -> str:
    if not apply:
        command = f"statemigrate new {argument(store)} --rebase"
        command += "" if onto is None else f" --onto {argument(onto)}"
        return f"`{command} --apply` writes this"
    asked = [each for each in made if each.questions]
    if asked:
        number = sum(len(each.questions) for each in asked)
        return (
            f"answer {number} question{'s' if number > 1 else ''}: `statemigrate new --edit "
            f"{argument(asked[0].revision)}`, and remove each when it is answered; then "
            "`statemigrate check`"
        )
    return "`statemigrate check`"
