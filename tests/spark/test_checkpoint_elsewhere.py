"""The embedded engine on a file system of Hadoop's: a machine is lost, and nothing with it."""

import uuid

import pytest
from elsewhere import LIVES
from pipelines import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def remote(spark, tmp_path):
    """A URI of no local file system, behind which is a local directory."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    (tmp_path / "mounted").mkdir()
    # Hadoop keeps a file system once it was opened, with its mounts.
    name = f"elsewhere-{uuid.uuid4().hex}"
    mount = f"fs.viewfs.mounttable.{name}.link./state"
    settings.set(mount, f"file://{tmp_path}/mounted")
    yield f"viewfs://{name}/state/checkpoint"
    settings.unset(mount)


@pytest.mark.parametrize("life", LIVES)
def test_a_query(spark, remote, tmp_path, scripts, life):
    pipeline = Pipeline(spark, tmp_path / "pipeline", checkpoint_directory=remote)
    LIVES[life](pipeline, scripts.write())
    assert not (tmp_path / "pipeline" / "checkpoint").exists()
    assert any((tmp_path / "mounted").rglob("*.pack"))
