"""Migration scripts as files, written by hand."""

from __future__ import annotations

from pathlib import Path

from statemigrate.scripts import ScriptFolder

TEXT = """\
'''Change something.

Create Date: 2026-01-01
'''

from statemigrate.formats import Avro, Struct

revision = {revision!r}
down_revision = {down!r}
branch_labels = {labels!r}
store = {store!r}
old = {old}
new = {new}
{more}

def upgrade(value):
    {upgrade}
"""


def script(
    directory: Path,
    revision: str,
    down: str | None = None,
    *,
    store: str = "auctions",
    old: str = 'Struct("a BIGINT")',
    new: str = 'Struct("a BIGINT")',
    upgrade: str = "return value",
    more: str = "",
    without: str = "",
) -> Path:
    """Write a complete script into a folder that is made if need be, less the text ``without``."""
    labels = None if down else (store,)
    text = TEXT.format(
        revision=revision,
        down=down,
        labels=labels,
        store=store,
        old=old,
        new=new,
        upgrade=upgrade,
        more=more,
    )
    assert without in text
    path = ScriptFolder.create(directory).versions / f"{revision}.py"
    path.write_text(text.replace(without, "") if without else text)
    return path
