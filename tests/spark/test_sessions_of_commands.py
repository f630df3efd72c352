"""The session that a command starts, in a process of its own as a command has it."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]
ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
PRINTED = f"""
import json
import os
from statemigrate.cli.session import local_session
with local_session() as session:
    print(json.dumps([session.conf.get(each) for each in ("{ZONE}", "{ANSI}")]))
"""


REFUSED = """
from statemigrate.cli.session import local_session
from statemigrate.configuration import ConfigurationError
from pyspark.sql import SparkSession
try:
    with local_session():
        pass
except ConfigurationError as error:
    print(error.code, error.data["path"], error.found, SparkSession.getActiveSession())
"""


def run(program, folder, **environment):
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return found.stdout


def test_a_session_has_the_project_s_settings_before_those_of_spark_s_file(tmp_path):
    (tmp_path / "statemigrate.toml").write_text(f'[spark]\n{ZONE} = "Asia/Tokyo"\n')
    (tmp_path / "spark-defaults.conf").write_text(f"{ZONE} Europe/Rome\n{ANSI} false\n")
    found = run(PRINTED, tmp_path, SPARK_CONF_DIR=str(tmp_path))
    assert json.loads(found) == ["Asia/Tokyo", "false"]


def test_a_value_that_spark_refuses_is_an_error_of_the_configuration(tmp_path):
    (tmp_path / "statemigrate.toml").write_text(f'[spark]\n{ZONE} = "Nowhere/Land"\n')
    code, path, found = run(REFUSED, tmp_path).split(" ", 2)
    assert (code, path) == ("SM-CONFIG-014", str(tmp_path))
    assert "Nowhere/Land" in found
    assert found.endswith(" None\n")
