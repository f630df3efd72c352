"""Queries through a bucket that fails, killed at any request: every key is right.

One engine; `make soak ENGINE=s3` has the others as well, for as long as it is given.
"""

import random

import pytest
from s3_lives import S3Lives, history

pytestmark = pytest.mark.integration


@pytest.fixture
def lives(s3, s3_proxy, proxied, tmp_path, request):
    engine = request.param
    conf = {**s3.conf, "spark.hadoop.fs.s3a.endpoint": s3_proxy.endpoint}
    chance = random.Random(engine)
    return S3Lives(engine, tmp_path / "lives", s3_proxy, proxied, s3.jars, conf, chance)


@pytest.mark.parametrize("lives", ["embedded"], indirect=True)
def test_a_query_that_is_killed_while_the_bucket_fails_loses_nothing(lives):
    history(lives)
    assert lives.figures.kills + lives.figures.errors
