"""Which operator's chunk files are meant: each one on pages has its own."""

from __future__ import annotations

from statemigrate.checkpoint.operators import operator_files, operator_names
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, PathOrFiles, open_files
from statemigrate.native.chunks import ChunkFiles, paged_in
from statemigrate.native.operators import FUNCTION, PROCESSOR, Which, is_name, pages_name


def chunk_files(checkpoint: PathOrFiles, operator: Which = None) -> ChunkFiles:
    """The chunk files of the operator that is meant, found by the checkpoint's files alone.

    Raises `CheckpointError` where several could be meant, or none is called so.
    """
    return ChunkFiles(checkpoint, operator_name(open_files(checkpoint), operator))


def operator_name(files: Files, operator: Which) -> str | None:
    """The name of the operator on pages that is meant, empty where it has none.

    None is for one that is not on pages, which `with_backfill` is for. Raises as `chunk_files`.
    """
    paged = paged_in(files)
    if not isinstance(operator, str) and not paged:
        return None
    others = sorted(operators_without_pages(files)) if ChunkFiles(files).is_made() else []
    if operator is None and len(paged) == 1 and not others:
        return paged[0]
    names = paged_names(files)
    if isinstance(operator, int):
        return names.get(operator)
    if operator is not None and operator in names.values():
        return operator
    if operator is not None and not names and (is_name(operator) or not operator):
        # Before the first batch.
        return operator
    if operator is None and len(names) <= 1 and not others:
        return next(iter(names.values()), None)
    raise _unclear(files, names, others, operator)


def paged_names(files: Files) -> dict[int, str]:
    """By Spark's number the name of each operator on pages, empty where `paged` gave it none."""
    newest: dict[int, frozenset[str]] = {}
    for each in operator_files(files):
        newest[int(each.path.split("/")[1])] = each.variables or frozenset()
    names = {number: pages_name(variables) for number, variables in newest.items()}
    return {number: name for number, name in names.items() if name is not None}


def operators_without_pages(files: Files) -> set[int]:
    """The numbers of operators that run a user's code, and whose state is not on pages."""
    names = operator_names(files)
    own = {number for number, name in names.items() if name.startswith((PROCESSOR, FUNCTION))}
    return own - paged_names(files).keys()


def _unclear(
    files: Files, names: dict[int, str], others: list[int], operator: Which
) -> CheckpointError:
    every = {**names, **dict.fromkeys(others, "")} if operator is None else names
    choices = [name or str(number) for number, name in sorted(every.items())]
    kind = "operators with a backfill" if others else "operators on pages"
    return CheckpointError(
        "SM-PAGES-035",
        f"the query of {files.location} has {len(every)} {kind} that could be meant"
        if operator is None
        else f"the query of {files.location} has no operator on pages named {operator}",
        expected=f"one of {', '.join(choices)}",
        found="none was named" if operator is None else operator,
        next_action=f"say which: --operator {' or '.join(choices)} on the command line, operator= "
        "in Python",
        path=files.location,
        operators=sorted(every),
    )
