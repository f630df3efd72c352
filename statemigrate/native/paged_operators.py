"""Which operator's chunk files are meant: those of pages have the operator's name."""

from __future__ import annotations

from statemigrate.checkpoint.operators.metadata import operator_files
from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.files.open import PathOrFiles, open_files
from statemigrate.native.checkpoint import Which, is_name, is_pages, name_in
from statemigrate.native.chunks import ChunkFiles, named_in


def chunk_files(checkpoint: PathOrFiles, operator: Which = None) -> ChunkFiles:
    """The chunk files of the operator that is meant, found by the checkpoint's files alone.

    Raises `CheckpointError` where several could be meant, or none is called so.
    """
    return ChunkFiles(checkpoint, operator_name(open_files(checkpoint), operator))


def operator_name(files: Files, operator: Which) -> str:
    """The name of the operator on pages that is meant; empty where it has none, or no pages.

    Raises as `chunk_files`.
    """
    if not isinstance(operator, str) and not named_in(files):
        return ""
    names = paged_names(files)
    if isinstance(operator, int):
        return names.get(operator, "")
    if operator is not None and operator in names.values():
        return operator
    if operator is not None and not names and (is_name(operator) or not operator):
        # Before the first batch.
        return operator
    if operator is None and len(names) <= 1:
        return next(iter(names.values()), "")
    raise _unclear(files, names, operator)


def paged_names(files: Files) -> dict[int, str]:
    """By Spark's number the name of each operator on pages, empty where `paged` gave it none."""
    newest: dict[int, frozenset[str]] = {}
    for each in operator_files(files):
        newest[int(each.path.split("/")[1])] = each.variables or frozenset()
    return {
        number: name_in(variables)
        for number, variables in newest.items()
        if any(map(is_pages, variables))
    }


def _unclear(files: Files, names: dict[int, str], operator: Which) -> CheckpointError:
    choices = [name or str(number) for number, name in sorted(names.items())]
    return CheckpointError(
        "SM-PAGES-035",
        f"the query of {files.location} has {len(names)} operators on pages that could be meant"
        if operator is None
        else f"the query of {files.location} has no operator on pages named {operator}",
        expected=f"one of {', '.join(choices)}",
        found="none was named" if operator is None else operator,
        next_action=f"say which: --operator {' or '.join(choices)} on the command line, operator= "
        "in Python",
        path=files.location,
        operators=sorted(names),
    )
