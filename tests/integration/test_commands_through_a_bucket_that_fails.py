"""A rewrite through a bucket that fails, killed at any request: no new checkpoint or a whole one.

`make soak ENGINE=s3` has forks as well, and goes on for as long as it is given.
"""

import random

import pytest
from s3_commands import S3Command, command_history

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("seed", [1])
def test_a_command_that_is_killed_while_the_bucket_fails_leaves_no_checkpoint_or_a_whole_one(
    spark, s3, s3_proxy, proxied, tmp_path, seed
):
    conf = {**s3.conf, "spark.hadoop.fs.s3a.endpoint": s3_proxy.endpoint}
    chance = random.Random(seed)
    lives = S3Command(
        "native", tmp_path / "lives", s3_proxy, proxied, s3.jars, conf, chance, session=spark
    )
    lives.partitions = 1
    command_history(lives, kills=1, verbs=("rewrite",))
    assert lives.figures.kills + lives.figures.errors
