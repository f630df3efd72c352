"""What the systems run from: what is not there, or not to be had, is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from systems import packages

pytestmark = pytest.mark.integration

NOTHING = """<ivysettings>
  <settings defaultResolver="here"/>
  <resolvers>
    <filesystem name="here"><artifact pattern="{folder}/[artifact].[ext]"/></filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(packages, "FOLDER", tmp_path / "systems")
    return tmp_path


def test_what_was_not_fetched_is_missing(folder):
    for needed in (lambda: packages.jars("broker"), packages.moto_python):
        with pytest.raises(packages.Missing, match="next: make systems"):
            needed()


def test_a_registry_that_does_not_have_them_is_asked_and_they_are_named(folder, monkeypatch):
    settings = folder / "ivysettings.xml"
    settings.write_text(NOTHING.format(folder=folder))
    monkeypatch.setenv("IVY_SETTINGS", str(settings))
    said: list[str] = []
    with pytest.raises(packages.Missing) as missing:
        packages.fetch(said.append)
    assert "org.apache.kafka#kafka_2.13;4.1.0: not found" in str(missing.value)
    assert "run `make systems` again" in str(missing.value)
    assert len(said) == 1
    with pytest.raises(packages.Missing):
        packages.jars("broker")
