from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from statemigrate.scripts import ScriptFolder

Write = Callable[..., Path]

BODY = """\
'''Change something.

Create Date: 2026-01-{day:02}
'''

from statemigrate.formats import Avro, Struct

revision = {revision!r}
down_revision = {down!r}
branch_labels = {labels!r}
store = {store!r}
old = {old}
new = {new}


def upgrade(value):
    return value
"""


@pytest.fixture
def folder(tmp_path) -> ScriptFolder:
    return ScriptFolder.create(tmp_path / "migrations")


@pytest.fixture
def write(folder) -> Write:
    """Write a script by hand; ``body`` replaces all of it, ``swap`` a piece of it."""

    def write_one(revision, down=None, *, body=None, swap=None, **parts) -> Path:
        values = {
            "revision": revision,
            "down": down,
            "store": "auctions",
            "old": 'Struct("a BIGINT")',
            "new": 'Struct("a BIGINT")',
            "day": 1,
            **parts,
        }
        values.setdefault("labels", None if down else (values["store"],))
        text = dedent(body) if body is not None else BODY.format(**values)
        for before, after in (swap or {}).items():
            assert before in text
            text = text.replace(before, after)
        path = folder.versions / f"{revision}_change.py"
        path.write_text(text)
        return path

    return write_one
