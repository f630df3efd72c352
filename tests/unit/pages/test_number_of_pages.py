"""How many pages there are against what is in them: surveyed at a start, and said once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from statemigrate.pages.columns import PageId
from statemigrate.pages.page import Page
from statemigrate.pages.pages_startup import PagesSummary, _surveyed, warn_of_size

KEYS = b"k" * 16
FORMATS = {"notes": b"n" * 16, "notes@r1": b"m" * 16}


def stored(number: int, entries: dict[str, int]) -> bytes:
    page = Page(PageId(8, number, KEYS))
    for family, count in entries.items():
        for each in range(count):
            page.section(family, FORMATS[family]).put(b"%03d" % each, b"value")
    data = page.written()
    assert data is not None
    return data


def surveyed(pages: dict[int, bytes]) -> list[dict[str, object]]:
    columns = [pa.array(list(pages), pa.int32()), pa.array(list(pages.values()), pa.binary())]
    batch = pa.RecordBatch.from_arrays(columns, ["number", "page"])
    found = [
        row for each in _surveyed(iter([batch]), pages=8, keys=KEYS) for row in each.to_pylist()
    ]
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_pages_are_surveyed_with_families_and_entries() -> None:
    pages = {0: stored(0, {"notes": 3}), 5: stored(5, {"notes": 1, "notes@r1": 20})}
    total, *families = surveyed(pages)
    sizes = map(len, pages.values())
    assert total == {"pages": 2, "largest": max(sizes), "entries": 24}
    assert sorted((row["family"], row["format"]) for row in families) == sorted(FORMATS.items())


def test_what_is_no_page_of_the_query_is_told() -> None:
    total, error = surveyed({4: stored(5, {"notes": 1})})
    assert total["pages"] == 0
    assert "in the place of another" in str(error["error"])


@pytest.mark.parametrize(
    ("held", "number", "said"),
    [
        (PagesSummary({}), 4_000, ""),
        (PagesSummary({}, 200, 30_000, 50_000), 200, ""),
        (PagesSummary({}, 10, 900, 30), 10, ""),
        (PagesSummary({}, 4, 16 << 20, 900_000), 4, ""),
        (PagesSummary({}, 4, 17 << 20, 900_000), 4, "has 17 MiB, and none may have more than 64"),
        (PagesSummary({}, 4, 17 << 20, 900_000), 4, "rewrite checkpoint NEW --pages 16 --apply"),
        (PagesSummary({}, 500, 200, 600), 1_000, "1.2 entries on average in 500 of 1000 pages"),
    ],
    ids=["nothing", "well filled", "a small query", "split", "large", "better number", "too many"],
)
def test_too_few_and_too_many_pages_are_said_with_figures(
    held: PagesSummary, number: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_size(held, number, "checkpoint")
    assert said in caplog.text
    assert len(caplog.records) == bool(said)
