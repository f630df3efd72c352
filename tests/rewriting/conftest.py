"""What a test rewrites: checkpoints of real queries, with new code going on with the new ones."""

import pytest
from support.sessions import spark, use_folders

__all__ = ["spark"]

use_folders("spark", "rewriting")


@pytest.fixture
def feed(tmp_path):
    """A folder of input, a file a batch."""
    from rewritten_queries import Feed

    return Feed(tmp_path / "input")
