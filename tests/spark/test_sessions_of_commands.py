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


def test_a_session_has_the_project_s_settings_before_those_of_spark_s_file(tmp_path):
    (tmp_path / "statemigrate.toml").write_text(f'[spark]\n{ZONE} = "Asia/Tokyo"\n')
    (tmp_path / "spark-defaults.conf").write_text(f"{ZONE} Europe/Rome\n{ANSI} false\n")
    found = subprocess.run(
        [sys.executable, "-c", PRINTED],
        cwd=tmp_path,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert json.loads(found.stdout) == ["Asia/Tokyo", "false"]
