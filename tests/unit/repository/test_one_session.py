"""All tests of a process share one Spark session, so none may stop it."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[2]
MAKERS = {"integration/conftest.py", "support/sessions.py"}
"""Where the session is made, and stopped when the process ends."""


def test_only_the_makers_of_the_session_have_a_fixture_of_that_name():
    makers = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and node.name == "spark"
        and "fixture" in decorators(node)
    }
    assert makers == MAKERS


def decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))
