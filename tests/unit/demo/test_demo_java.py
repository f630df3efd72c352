import pytest

from statemigrate.errors import StatemigrateError
from statemigrate.files.hadoop_jvm import require_java


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Put a `java` on the path that prints what it is told."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def install(printed, directory=tmp_path):
        directory.mkdir(parents=True, exist_ok=True)
        script = directory / "java"
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{printed}' >&2\n")
        script.chmod(0o755)
        return script

    return install


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_a_recent_java_is_accepted(java, printed, major):
    java(printed)
    assert require_java() == major


@pytest.mark.parametrize(
    ("printed", "found"),
    [('java version "1.8.0_402"', "Java 8 "), ('openjdk version "11.0.2" 2019-01-15', "Java 11 ")],
)
def test_an_old_java_is_named_with_its_place(java, printed, found):
    script = java(printed)
    with pytest.raises(StatemigrateError, match="Spark needs Java 17") as raised:
        require_java()
    assert found in raised.value.found
    assert str(script) in raised.value.found
    assert "JAVA_HOME" in raised.value.next_action


def test_no_java_at_all_is_said(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StatemigrateError) as raised:
        require_java()
    assert raised.value.found == "no java on the path, no JAVA_HOME"


def test_java_home_goes_before_the_path(java, monkeypatch, tmp_path):
    java('openjdk version "11.0.2"')
    java('openjdk version "17.0.1"', tmp_path / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert require_java() == 17


def test_a_java_home_without_java_is_said(java, monkeypatch, tmp_path):
    java('openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(StatemigrateError) as raised:
        require_java()
    assert raised.value.found == f"no bin/java in JAVA_HOME={tmp_path / 'nowhere'}"


def test_a_java_that_says_no_version_is_quoted(java):
    java("Unable to locate a Java Runtime.")
    with pytest.raises(StatemigrateError, match="Unable to locate a Java Runtime"):
        require_java()
