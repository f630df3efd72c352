import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from support.dry_runs import (
    EMPTY,
    GOOD,
    LONG_KEY,
    MAKO,
    NASTY,
    NOT_SAMPLED,
    QUOTES,
    REPORT,
    RIGHT_TO_LEFT,
    TAG,
    huge,
)

import statemigrate.inspect.dry_run_report
from statemigrate.inspect.report_html import html_page

CONTROL_SHOWN = r"bell\x07 escape\x1b[31m null\x00 next\x85 line\nnext\ttab \udc80 \ufffe"
RIGHT_TO_LEFT_SHOWN = RIGHT_TO_LEFT.replace("\u202e", r"\u202e").replace("\u202c", r"\u202c")
VOID = {"meta", "br", "rect", "line"}
ELEMENTS = """
    html head meta title style body main header section figure figcaption div p span h1 h2 h3
    ul li dl dt dd table caption thead tbody tr th td code bdi strong br svg rect line
"""


class Page(HTMLParser):
    """Elements with their attributes, texts one by one, and the rows of tables."""

    def __init__(self, report):
        super().__init__()
        self.elements, self.open, self.texts, self.rows = [], [], [], []
        self.source = html_page(report)
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        shown = (data for tag, data in self.texts if tag not in ("style", "title"))
        return " ".join(" ".join(shown).split())

    @property
    def labels(self):
        return [svg["aria-label"] for svg in self.of("svg")]


def test_the_headline_the_verdict_and_the_next_step_come_first():
    text = Page(REPORT).text
    expected = (
        "statemigrate 0.1.0 dry run, 2023-11-14 22:13:20 UTC auctions to 9f2d6c1b7e05 "
        "04cb3bbb72d2 item and closing time in one record 9f2d6c1b7e05 money as decimals "
        "1,000,417 of 1,000,420 values migrate; 3 fail for 2 causes. "
        "Not ready: 3 values would not migrate. "
        "1,000,420 of 1,250,420 values were tried; 250,000 are outside the sample. "
        "12 of 999,997 values came back from a round trip other than before. "
        "There is no way back for auctions_04cb3bbb72d2. "
        "The values that migrate take 58.2 MiB before and 63.4 MiB after (+9.0%). "
        "5,112 values are in the target's format already. "
        "A backfill of 1,250,420 values would take about 25 min 30 s, 1,251 batches. "
        "Next: correct `upgrade` so that it takes these values, then run the dry run again. "
        "Families"
    )
    assert text[: len(expected)] == expected


def test_every_number_and_example_is_in_a_table():
    rows = [[" ".join(cell.split()) for cell in row] for row in Page(REPORT).rows]
    one, two = '["auction-1"]', '["auction-2"]'
    assert rows == [
        ["Family and revision", "Stored", "Tried", "Passed", "Failed", "Round trips differing"],
        ["auctions_04cb3bbb72d2 04cb3bbb72d2", "420", "420", "420", "0", "no way back"],
        ["auctions base", "1,250,000", "1,000,000", "999,997", "3", "12"],
        ["Field", "Values", "Key", "Before", "Came back as"],
        ["price", "12", '["auction-8"]', "12.345", "12.34"],
        ["note", "2", "no example was kept"],
        ["Field", "Effect", "Values", "Key", "Before", "After"],
        ["item.name", "added", "10,000", one, "nothing", '"Lamp"'],
        ["name", "removed", "10,000", one, '"Lamp"', "nothing"],
        ["closes \N{RIGHTWARDS ARROW} item.ends", "renamed", "10,000", one, "17", "17"],
        ["price", "changed", "9,990", one, "10.5", '"10.50"'],
        [two, "7.25", '"7.25"'],
    ]


def test_every_bar_says_its_numbers():
    assert Page(REPORT).labels == [
        "auctions_04cb3bbb72d2: 420 passed",
        "auctions: 999,997 passed, 3 failed, 250,000 not sampled",
        "price: 420 kept",
        "up to 64 B: 300 before, 300 after",
        "up to 128 B: 120 before, 120 after",
        "ValueError: price 'n/a' is no decimal: 2 values",
        "KeyError: 'currency': 1 value",
        "item.name: 10,000 added",
        "name: 10,000 removed",
        "closes \N{RIGHTWARDS ARROW} item.ends: 10,000 renamed",
        "price: 10 kept, 9,990 changed",
        "seller: 10,000 kept",
        "up to 32 B: 120,000 before, 0 after",
        "up to 64 B: 700,000 before, 640,000 after",
        "up to 128 B: 179,997 before, 359,990 after",
        "up to 256 B: 0 before, 0 after",
        "up to 512 B: 0 before, 7 after",
    ]


def test_failures_have_their_keys():
    text = Page(REPORT).text
    assert (
        "Causes, the most frequent first ValueError: price 'n/a' is no decimal 2 values "
        'Keys: ["auction-17"] ["auction-90210"] '
        "KeyError: 'currency' 1 value Keys: [\"auction-4711\"] Round trips" in text
    )


def test_more_values_than_keys_is_said():
    (_, family) = REPORT.families
    failure = replace(family.failures[0], values=5)
    report = replace(REPORT, families=(replace(family, failed=5, failures=(failure,)),))
    assert 'Keys (some): ["auction-17"]' in Page(report).text


def test_the_estimate_and_the_run_are_at_the_end():
    text = Page(REPORT).text
    assert text[text.index("Backfill Values") :] == (
        "Backfill Values 1,250,420 Time about 25 min 30 s Batches 1,251 "
        "Estimated from 1,000 values a batch, a batch in 1.2 s "
        "The run Store auctions (value) Engine embedded State as of batch 48211 "
        "Target revision 9f2d6c1b7e05 Sample 1,000,000 values "
        "In the target's format already 5,112 Took 41.7 s, 23,991 values a second "
        "Checkpoint /data/checkpoints/auctions "
        "Nothing was written: the values were read, taken through the transforms and dropped."
    )


def test_values_of_a_file_are_of_no_batch():
    page = html_page(replace(REPORT, batch=None))
    assert "State as of batch" in html_page(REPORT)
    assert "as of batch" not in page


def test_sizes_are_exact_too():
    assert (
        "The values that migrate take 58.2 MiB before and 63.4 MiB after (+9.0%), as Avro: "
        "61,000,000 and 66,500,000 bytes." in Page(REPORT).text
    )


@pytest.mark.parametrize("report", [REPORT, GOOD, EMPTY, NASTY, huge(3, 20)])
def test_nothing_but_the_page_s_own_elements_is_on_it(report):
    page = Page(report)
    assert {tag for tag, _ in page.elements} <= set(ELEMENTS.split())
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert not names & {"style", "src", "href", "srcset", "action"}
    assert "url(" not in page.source.split("</style>")[0]


@pytest.mark.parametrize("report", [REPORT, EMPTY, NASTY])
def test_headings_are_in_order_and_everything_has_a_name(report):
    page = Page(report)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.of("html") == [{"lang": "en"}]
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.of("svg"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    named = [attributes["aria-labelledby"] for attributes in page.of("section")]
    assert named == ids
    assert len(set(ids)) == len(ids)
    assert len(page.of("caption")) == len(page.of("table"))
    assert all("scope" in each for each in page.of("th"))


def test_the_policy_allows_the_style_sheet_and_nothing_else():
    page = Page(NASTY)
    (style,) = (data for tag, data in page.texts if tag == "style")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    (policy,) = (
        each["content"]
        for each in page.of("meta")
        if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_only_the_style_sheet_is_not_escaped():
    folder = Path(statemigrate.inspect.dry_run_report.__file__).with_name("html_template")
    raw = [
        expression
        for template in sorted(folder.glob("*.mako"))
        for expression in re.findall(r"\$\{[^}]*\|[^}]*\}", template.read_text(encoding="utf-8"))
    ]
    assert raw == ["${style | n}"]


def test_nasty_texts_are_shown_as_they_are():
    page = Page(NASTY)
    page.source.encode("utf-8")
    assert not set(page.source) & set("\x00\x07\x1b\x85\udc80\ufffe\u202e\u202c")
    shown = (TAG, QUOTES, CONTROL_SHOWN, RIGHT_TO_LEFT_SHOWN, MAKO, LONG_KEY)
    codes = [data for tag, data in page.texts if tag == "code"]
    # Once as a key of a failure, three times in round trips, twice in fields; of the whole values
    # as a key, as the first line of what was before, and after; three times where a law is broken.
    for text in (*shown[:2], *shown[4:]):
        assert codes.count(text) == 12
    # The line break in it is one there.
    assert codes.count(CONTROL_SHOWN) == 11
    assert codes.count(RIGHT_TO_LEFT_SHOWN) == 13
    assert next(data for tag, data in page.texts if tag == "title") == f"Dry run of store {TAG}"
    for text in (
        f"store {TAG} to target {RIGHT_TO_LEFT_SHOWN}",
        f"family {TAG} revision revision {QUOTES}",
        rf"cause {TAG} second line bell\x07 escape\x1b[31m null\x00 next\x85 line next\ttab",
        f"cause {RIGHT_TO_LEFT_SHOWN} {MAKO}",
        f"difference {TAG}",
        f"field {TAG}",
        f"the script of law {TAG} claims",
        rf"message {QUOTES} {CONTROL_SHOWN} {MAKO} , taken back",
        LONG_KEY[:300],
        f"Estimated from basis {TAG} {MAKO}",
        f"Checkpoint /data/{QUOTES}{CONTROL_SHOWN}",
    ):
        assert text in page.text
    assert f"field {TAG}: 7,777 changed" in page.labels


def test_a_report_without_failures_says_so():
    page = Page(GOOD)
    assert "All 1,000,000 values migrate. Ready to deploy: every value migrates." in page.text
    assert "Failures None: 1,000,000 values migrate." in page.text
    assert "1,000,000 values went there and back and came out the same." in page.text
    assert page.labels[0] == "auctions: 1,000,000 passed"
    assert not [each for each in page.of("rect") if "failed" in each["class"]]
    assert "Sample all values" in page.text


def test_an_empty_report_is_a_page_too():
    page = Page(EMPTY)
    assert "No value is left to migrate. Nothing to do." in page.text
    assert "there is no other family" in page.text
    assert "Backfill No estimate was made." in page.text
    assert "Took 0.25 s, 0 values a second" in page.text
    assert page.labels == []
    assert page.rows == []


def test_a_family_outside_the_sample_is_not_called_good():
    page = Page(replace(GOOD, families=(NOT_SAMPLED,)))
    assert page.labels == ["auctions_04cb3bbb72d2: 420 not sampled"]
    assert "Failures No value of this family was tried." in page.text
    assert "Round trips No value made a round trip." in page.text
    assert "Fields No value was compared field by field." in page.text
    assert "Sizes No value was measured." in page.text


def test_a_huge_report_has_everything():
    report = huge()
    page = Page(report)
    # Families, and for each 50 causes, 200 fields and 31 sizes.
    assert len(page.labels) == 20 + 20 * (50 + 200 + 31)
    assert len(page.rows) == 21 + 20 * (1 + 2 + 1 + 200)
    assert "cause 19-49" in page.text
    assert "field_19_199: 999,999,999,820 changed" in page.labels
    assert "up to 1 GiB: 32,258,064,516 before, 1,000,000,000,000 after" in page.labels


def test_parts_never_leave_the_chart():
    (_, family) = REPORT.families
    # More effects than values looked at: a field within a list counts more than once.
    report = replace(REPORT, families=(replace(family, looked_at=100),))
    for part in Page(report).of("rect"):
        start, width = (float(part[name].removesuffix("%")) for name in ("x", "width"))
        assert start >= 0
        assert start + width <= 100.0001
