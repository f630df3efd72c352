"""Checkpoints in a bucket and on HDFS, read by processes that have no Java at all."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from native_pipeline import NativePipeline
from paged_pipeline import TallyPages
from pipelines import Pipeline
from tally import CentsTally, batch

pytestmark = pytest.mark.integration

_LOOK = """
import json, sys
import statemigrate
from statemigrate.files import hadoop_jvm
from statemigrate.formats.arrow_values import plain_rows
found = {}
for place in sys.argv[1:]:
    state = statemigrate.open_state(place, migrations=None)
    table = state["tally"]
    rows = table.to_arrow().sort_by("key")
    first = rows["key"][0].as_py()
    status = statemigrate.status(place, migrations=None)
    found[place] = {
        "batches": state.batches,
        "rows": repr(plain_rows(rows)),
        "get": repr(table.get(first)),
        "logical": repr(statemigrate.get("tally", place, first, migrations=None)),
        "changed": state["tally"].changes(state.batch - 1).num_rows,
        "status": [each.store for each in status.stores],
        "sql": repr(state.sql('select count(*) from tally').to_pylist()),
        "plan": [each.name for each in statemigrate.plan(place, migrations=None).items],
        "java": bool(hadoop_jvm._started),
    }
print(json.dumps(found))
"""


def looked(places, endpoint, **more):
    """What a process without Java finds at the places."""
    kept = ("PATH", "HOME", "PYTHONPATH", "TMPDIR")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {
        "JAVA_HOME": "/no-java",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "HADOOP_USER_NAME": os.environ.get("HADOOP_USER_NAME", os.environ.get("USER", "root")),
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *places],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def checkpoints(spark, tmp_path_factory):
    """A checkpoint of each engine on this machine's disk, each after two batches."""
    top = tmp_path_factory.mktemp("without-java")
    made = {
        "native": NativePipeline(spark, top / "native"),
        "paged": TallyPages(spark, top / "paged"),
        "embedded": Pipeline(spark, top / "embedded"),
    }
    for name, pipeline in made.items():
        for number in range(2):
            pipeline.feed(batch(f"b{number}", range(number, 30)))
            run = pipeline.deploy if name == "embedded" else pipeline.deploy_natively
            run(CentsTally())
    return {name: Path(pipeline.checkpoint) for name, pipeline in made.items()}


@pytest.mark.parametrize("system", ["s3", "hdfs"])
def test_all_engines_state_is_read_from_there_as_from_a_disk(system, checkpoints, s3, hdfs, spark):
    top = f"{SimpleNamespace(s3=s3, hdfs=hdfs).__dict__[system].uri}/{uuid.uuid4().hex}"
    copied = {name: f"{top}/{name}" for name in checkpoints}
    java = spark._jvm.org.apache.hadoop.fs
    for name, place in copied.items():
        source, target = java.Path(f"file://{checkpoints[name]}"), java.Path(place)
        conf = spark._jsc.hadoopConfiguration()
        java.FileUtil.copy(
            source.getFileSystem(conf), source, target.getFileSystem(conf), target, False, conf
        )
    check_alike(checkpoints, copied, s3.endpoint)


def test_state_in_googles_buckets_is_found_though_no_object_stands_for_a_folder(
    checkpoints, s3, gcs
):
    top = uuid.uuid4().hex
    for name, source in checkpoints.items():
        gcs.copy(source, f"{top}/{name}")
    copied = {name: f"{gcs.uri}/{top}/{name}" for name in checkpoints}
    check_alike(checkpoints, copied, s3.endpoint, **gcs.variables)


def check_alike(checkpoints, copied, endpoint, **more):
    """What a process without Java finds in the copies is what it finds on this machine's disk."""
    here = looked([str(each) for each in checkpoints.values()], endpoint)
    there = looked(copied.values(), endpoint, **more)
    for name, place in copied.items():
        expected = here[str(checkpoints[name])]
        assert there[place] == expected
        assert len(expected["batches"]) >= 2
        assert expected["status"] == ["tally"]
        assert expected["plan"]
        assert not expected["java"]
