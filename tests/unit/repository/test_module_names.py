"""Modules of the tests that are imported by their bare names have names of their own."""

from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[2]
OF_PYTEST = {"conftest.py", "__init__.py"}


def test_no_two_folders_that_are_on_the_path_have_a_module_of_one_name():
    """A process that runs the tests of both would give one of them the other's module."""
    places = defaultdict(list)
    for path in sorted(TESTS.rglob("*.py")):
        if path.name not in OF_PYTEST and not (path.parent / "__init__.py").exists():
            places[path.name].append(str(path.relative_to(TESTS)))
    assert len(places) > 300
    assert [each for each in places.values() if len(each) > 1] == []
