"""Ctrl-C is told apart from errors, also where it makes others fail."""

import click
import pytest
from click.testing import CliRunner

from statemigrate.cli import main


@pytest.fixture
def verb(monkeypatch):
    def runs(function):
        monkeypatch.setattr(main, "get_command", lambda *_: click.command("verb")(function))
        return CliRunner().invoke(main, ["verb"])

    return runs


def test_an_error_that_ctrl_c_leads_to_is_an_interruption(verb):
    def interrupted():
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("Answer from Java side is empty")

    result = verb(interrupted)
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_an_error_of_its_own_is_none(verb):
    def fails():
        raise ConnectionError("refused")

    result = verb(fails)
    assert result.exit_code == 1
    assert "refused" in result.stderr
    assert "Interrupted" not in result.stderr
