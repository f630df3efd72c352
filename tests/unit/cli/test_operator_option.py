"""The number or name of an operator reaches the commands, the number 0 as well."""

import click
import pytest
from click.testing import CliRunner

from statemigrate.cli import main
from statemigrate.cli.options import Settings, operator_option, shared_options


@click.command()
@operator_option
@shared_options()
@click.pass_obj
def said(settings: Settings) -> None:
    click.echo(str(settings.operator))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "None"),
        (["--operator", "0"], "0"),
        (["--operator", "3"], "3"),
        (["--operator", "tallies"], "tallies"),
    ],
)
def test_it_is_remembered(arguments, expected):
    assert CliRunner().invoke(said, arguments).stdout == f"{expected}\n"


def test_it_is_a_number_or_a_name_that_an_operator_can_have():
    for wrong in ("-1", "First", "a-b", "../x", ""):
        assert CliRunner().invoke(said, ["--operator", wrong]).exit_code == 2


@pytest.mark.parametrize("verb", ["status", "dry-run", "get", "export", "backfill", "new"])
def test_every_command_that_reads_spark_s_state_has_it(verb):
    assert "--operator NUMBER|NAME" in CliRunner().invoke(main, [verb, "--help"]).stdout
