"""Every page does what it says: its files are written, its commands run, its output compared."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from support.pages import DOCS, Page, Reader, all_pages

pytestmark = [pytest.mark.spark, pytest.mark.long]

CHECKED_MORE = {"embedded.md", "in-ci.md", "quarantine.md"}
# tests/native follows the first two, on each version of Spark, and compares the state as well;
# tests/checkpoints the third, on a query's checkpoint.
ELSEWHERE = {"practice.md", "spark-state.md", "fork.md"}
# What runs in Spark's workers needs the reader's environment on the path.
ACTIVATED = {"tutorial.md", "rewriting/pandas-state.md", "rewriting/transform-with-state.md"}


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Reader:
    top = tmp_path_factory.mktemp("pages")
    return Reader(top / "reader", top / "saved")


def follow(reader: Reader, name: str) -> list[str]:
    return replace(reader, activated=name in ACTIVATED).follow(Page(DOCS / name))


def test_the_embedded_engine_leads_to_a_migrated_query_and_back(reader):
    follow(reader, "embedded.md")
    applied = sorted(path.name for path in (reader.folder / "totals").glob("batch=*"))
    assert applied[:3] == ["batch=0", "batch=1", "batch=2"]


def test_in_ci_both_commands_leave_what_a_build_keeps(reader):
    follow(reader, "in-ci.md")
    suite = ElementTree.parse(reader.folder / "dry-run.xml").getroot()  # noqa: S314 - our own
    assert list(suite.iter("testcase"))
    assert not list(suite.iter("failure"))
    assert "auctions" in (reader.folder / "dry-run.html").read_text()
    applied = json.loads((reader.folder / "migrations" / "applied.json").read_text())["applied"]
    assert list(applied) == ["auctions"]


def test_quarantine_holds_the_one_value_that_does_not_migrate(reader):
    _, left = follow(reader, "quarantine.md")
    (row,) = [line for line in left.splitlines() if "AttributeError" in line]
    assert row.split()[:2] == ["auctions", "[13]"]


@pytest.mark.parametrize(
    "name", [page.name for page in all_pages() if page.name not in CHECKED_MORE | ELSEWHERE]
)
def test_a_page_does_what_it_says(reader, name):
    follow(reader, name)
