"""The page of changes has the rows that the tests run."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "changes_page.py"


def test_the_page_has_every_change_of_the_catalogue():
    script = runpy.run_path(str(SCRIPT))
    page = script["PAGE"].read_text()
    assert script["with_changes"](page) == page
    assert len(script["CHANGES"]) >= 60
    assert page.count("| Spark will not notice |") >= 30
