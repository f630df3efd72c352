"""Checkpoints of every stateful operator, as Spark writes them."""

from pathlib import Path

import pytest
from support.sessions import spark, use_folders

__all__ = ["spark"]

use_folders("checkpoints", "spark")


@pytest.fixture(scope="session")
def made(spark, tmp_path_factory):
    """A query of `state_queries` that has run four batches, made once for each way."""
    from state_queries import WAYS, StateQuery

    queries = {}

    def make(name: str, way: str, **settings: str) -> StateQuery:
        """``way`` is of `WAYS`; ``settings`` are further ones."""
        key = (name, way, *sorted(settings.items()))
        if key not in queries:
            root: Path = tmp_path_factory.mktemp(name.replace(" ", "-"))
            queries[key] = StateQuery(spark, root, name)
            for batch in range(4):
                queries[key].feed(batch)
            queries[key].run(**WAYS[way], **settings)
        return queries[key]

    return make
