"""The engine's batches need a classic driver."""

from types import SimpleNamespace

import pytest

from statemigrate import EmbeddedQuery
from statemigrate.errors import UnsupportedError


def test_a_stream_of_spark_connect_is_refused_before_anything_is_touched(tmp_path):
    stream = SimpleNamespace(sparkSession=SimpleNamespace())
    with pytest.raises(UnsupportedError) as refused:
        EmbeddedQuery(
            stream,
            by="key",
            processor=object(),
            outputStructType="key STRING",
            checkpoint=tmp_path / "checkpoint",
            sink=lambda rows, batch: None,
        )
    assert refused.value.found == "a session of Spark Connect"
    assert list(tmp_path.iterdir()) == []
