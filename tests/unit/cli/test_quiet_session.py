"""What Spark and Java say when the command line starts them: left out, unless it is asked for."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from statemigrate.cli.main import is_quiet, pass_on, quiet_settings

OPTIONS = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"]


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    for name in (*OPTIONS, "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_java_that_are_about_the_logging_count(monkeypatch, name):
    monkeypatch.setenv(name, "-Xmx2g")
    assert is_quiet()
    monkeypatch.setenv(name, "-Xmx2g -Dlog4j2.configurationFile=file:/etc/mine.xml")
    assert not is_quiet()


@pytest.mark.parametrize("ending", ["properties", "xml", "yaml", "json"])
def test_a_configuration_of_the_logging_counts_and_spark_s_template_is_none(
    monkeypatch, tmp_path, ending
):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 2g\n")
    (tmp_path / f"log4j2.{ending}.template").write_text("")
    assert is_quiet()
    (tmp_path / f"log4j2.{ending}").write_text("")
    assert not is_quiet()


def test_who_looks_for_an_error_sees_everything():
    for debug in (True, False):
        with click.Context(click.Command("verb"), obj=SimpleNamespace(debug=debug)):
            assert is_quiet() is not debug


def test_what_is_set_is_a_file_of_the_package_that_the_user_s_own_options_count_over():
    (said,) = quiet_settings().items()
    name, options = said
    # Spark puts these before spark.driver.extraJavaOptions, which is the user's.
    assert name == "spark.driver.defaultJavaOptions"
    place = options.strip('"').removeprefix("-Dlog4j2.configurationFile=file://")
    assert Path(place).is_file()


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_only_what_is_always_the_same_is_left_out_however_it_comes(monkeypatch, at_once):
    monkeypatch.setattr(sys.modules["statemigrate.cli.main"], "_CHUNK", at_once)
    said = (
        b"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n"
        b"WARNING: Using incubator modules: jdk.incubator.vector\n"
        b"Starting Streaming TransformWithStateInPandas Python worker.\n\n"
        b"Streaming TransformWithStateInPandas Python worker finish init stage.\n\n"
        b"WARNING: something else\n\nOutOfMemoryError: no\nan end without a line"
    )
    source, into = os.pipe()
    os.write(into, said)
    os.close(into)
    told = []
    pass_on(source, told.append)
    os.close(source)
    assert b"".join(told).splitlines() == [
        b"Picked up JAVA_TOOL_OPTIONS: -Xmx1g",
        b"WARNING: something else",
        b"",
        b"OutOfMemoryError: no",
        b"an end without a line",
    ]
