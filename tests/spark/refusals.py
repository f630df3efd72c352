"""A prepared checkpoint, and what a refusal must look like."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipelines import Pipeline

from statemigrate.errors import StatemigrateError


def copied(spark: Any, template: Pipeline, root: Path) -> Pipeline:
    """A pipeline on a copy of the template's checkpoint, with no working copy and no new input."""
    pipeline = Pipeline(spark, root)
    shutil.copytree(template.checkpoint, pipeline.checkpoint)
    return pipeline


def refused(kind: type[StatemigrateError], act: Callable[[], Any], *parts: str) -> Any:
    """Assert that ``act`` raises exactly ``kind``, and that the message holds all ``parts``."""
    with pytest.raises(StatemigrateError) as caught:
        act()
    error = caught.value
    assert type(error) is kind, error
    text = str(error)
    for part in parts:
        assert part in text, text
    assert error.next_action
    assert "\n  expected: " in text
    assert "\n  found: " in text
    return error


def contents(directory: Path) -> dict[str, str]:
    """Every file below a directory with its hash; the lock file only says who had it last."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "lock"
    }
