"""State in pages, which only the query itself and its backfill look into."""

from __future__ import annotations

from statemigrate.errors import UnsupportedError
from statemigrate.files import Files
from statemigrate.pages.record import is_paged


def refuse_pages(checkpoint: str, files: Files) -> None:
    """Raise `UnsupportedError` where ``files``, those of ``checkpoint``, have state in pages."""
    if is_paged(files):
        raise UnsupportedError(
            f"the state of {checkpoint} is in pages, which this does not look into yet",
            expected="state in variables of Spark's, or of the embedded engine",
            found="pages, as `paged` keeps them",
            next_action=f"`statemigrate backfill {checkpoint} --status` knows pages; the query "
            "itself says when it starts what does not fit",
            path=checkpoint,
        )
