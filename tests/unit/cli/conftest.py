from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from statemigrate.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Run:
    """Run a command in an empty directory and check its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATEMIGRATE_MIGRATIONS", raising=False)

    def run_one(*arguments: str, code: int = 0, **options) -> Result:
        result = CliRunner().invoke(main, arguments, prog_name="statemigrate", **options)
        assert result.exit_code == code, result.output
        return result

    return run_one
