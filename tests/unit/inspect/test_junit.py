from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from support.dry_runs import (
    EMPTY,
    GOOD,
    LONG_KEY,
    LOSING,
    NASTY,
    NOT_SAMPLED,
    QUOTES,
    REPORT,
    RIGHT_TO_LEFT,
    TAG,
    huge,
)

from statemigrate.inspect.report_junit import junit_xml

# What the readers' common schema takes: an element's children, then its attributes; ! is required.
SCHEMA = {
    "testsuites": (("testsuite",), "name time tests failures errors"),
    "testsuite": (
        ("properties", "testcase", "system-out"),
        "name! tests! failures! errors! skipped time",
    ),
    "properties": (("property",), ""),
    "property": ((), "name! value!"),
    "testcase": (("skipped", "failure"), "name! classname time"),
    "failure": ((), "message type"),
    "skipped": ((), "message type"),
    "system-out": ((), ""),
}
CONTROL_SHOWN = r"bell\x07 escape\x1b[31m null\x00 next\x85 line\nnext\ttab \udc80 \ufffe"


def parsed(report):
    return ET.fromstring(junit_xml(report))  # noqa: S314


def suite_of(report):
    root = parsed(report)
    assert root.tag == "testsuites"
    (suite,) = root
    return suite


def cases_of(report):
    return {case.get("name"): case for case in suite_of(report).iter("testcase")}


@pytest.mark.parametrize("report", [REPORT, GOOD, EMPTY, NASTY, huge()])
def test_it_keeps_to_the_schema_and_its_sums_are_right(report):
    root = parsed(report)
    for element in root.iter():
        children, attributes = SCHEMA[element.tag]
        assert {child.tag for child in element} <= set(children)
        known = attributes.replace("!", "").split()
        required = {name[:-1] for name in attributes.split() if name.endswith("!")}
        assert required <= set(element.keys()) <= set(known)
    (suite,) = root
    cases = suite.findall("testcase")
    assert suite.get("tests") == root.get("tests") == str(len(cases))
    failed = [case for case in cases if case.find("failure") is not None]
    assert suite.get("failures") == root.get("failures") == str(len(failed))
    assert suite.get("errors") == root.get("errors") == "0"
    assert suite.get("skipped") == str(len(list(suite.iter("skipped"))))
    times = sum(round(float(case.get("time")) * 1000) for case in cases)
    assert times == round(report.seconds * 1000)
    assert suite.get("time") == root.get("time") == f"{report.seconds:.3f}"
    assert len({case.get("name") for case in cases}) == len(cases)


def test_a_case_is_a_family_and_a_check():
    cases = cases_of(REPORT)
    assert {name: case.get("time") for name, case in cases.items()} == {
        "auctions_04cb3bbb72d2 (04cb3bbb72d2): values migrate to 9f2d6c1b7e05": "0.018",
        "auctions_04cb3bbb72d2 (04cb3bbb72d2): no field is lost": "0.000",
        "auctions (base): values migrate to 9f2d6c1b7e05": "41.682",
        "auctions (base): no field is lost": "0.000",
        "auctions (base): round trips come back the same": "0.000",
    }
    assert {case.get("classname") for case in cases.values()} == {"statemigrate.auctions"}


def test_a_failure_has_its_causes_counts_and_keys():
    failure = cases_of(REPORT)["auctions (base): values migrate to 9f2d6c1b7e05"].find("failure")
    assert failure.get("message") == "3 of 1,000,000 values do not migrate"
    assert failure.text.splitlines() == [
        "2 values: ValueError: price 'n/a' is no decimal",
        '  key: ["auction-17"]',
        '  key: ["auction-90210"]',
        "1 value: KeyError: 'currency'",
        '  key: ["auction-4711"]',
    ]


def test_a_round_trip_that_differs_is_a_failure_of_its_own():
    failure = cases_of(REPORT)["auctions (base): round trips come back the same"].find("failure")
    assert failure.get("message") == (
        "12 of 999,997 values came back from downgrade(upgrade(value)) other than before."
    )
    assert failure.text.splitlines() == [
        "12 values: field price",
        '  key: ["auction-8"]: 12.345 came back as 12.34',
        "2 values: field note",
    ]


def test_a_lost_field_is_a_failure_that_names_the_function_and_what_to_do():
    case = cases_of(LOSING)["auctions (base): no field is lost"]
    failure = case.find("failure")
    assert failure.get("message") == "note and item.colour would be lost"
    assert failure.text.splitlines() == [
        'note had values, such as "blue": nothing is left of them after upgrade',
        "  next: correct `upgrade` in m/versions/a1.py so that it keeps note; if it is meant to be "
        "lost, add 'note' to `drops` in that script.",
        "item.colour had values: nothing is left of them after upgrade",
        "  next: correct `upgrade` in m/versions/a1.py so that it keeps item.colour; if it is "
        "meant to be lost, add 'item.colour' to `drops` in that script.",
    ]


def test_the_run_is_in_the_properties():
    properties = {each.get("name"): each.get("value") for each in suite_of(REPORT).iter("property")}
    assert properties == {
        "engine": "embedded",
        "kind": "value",
        "checkpoint": "/data/checkpoints/auctions",
        "batch": "48211",
        "target": "9f2d6c1b7e05",
        "sample": "1000000",
        "stored": "1250420",
        "tried": "1000420",
        "passed": "1000417",
        "failed": "3",
        "differing": "12",
        "lost": "0",
        "lawless": "0",
        "in_target": "5112",
    }


def test_values_of_a_file_are_of_no_batch():
    suite = suite_of(replace(REPORT, batch=None))
    assert [
        each.get("value") for each in suite.iter("property") if each.get("name") == "batch"
    ] == ["none"]


def test_a_good_run_has_no_failure():
    assert suite_of(GOOD).get("failures") == "0"
    assert [len(case) for case in cases_of(GOOD).values()] == [0, 0, 0]


def test_a_store_without_other_families_still_has_a_case():
    assert {name: len(case) for name, case in cases_of(EMPTY).items()} == {
        "nothing is left to migrate": 0
    }


def test_a_family_outside_the_sample_is_skipped():
    suite = suite_of(replace(GOOD, families=(NOT_SAMPLED,)))
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("3", "3", "0")
    assert [each.get("message") for each in suite.iter("skipped")] == [
        "none of 420 values was in the sample",
        "no value was compared",
        "no value made a round trip",
    ]


def test_a_drained_family_passes():
    drained = replace(NOT_SAMPLED, stored=0)
    suite = suite_of(replace(GOOD, families=(drained,)))
    assert (suite.get("tests"), suite.get("skipped"), suite.get("failures")) == ("3", "0", "0")


def test_nasty_texts_are_escaped_and_none_is_lost():
    text = junit_xml(NASTY)
    assert "<img" not in text
    text.encode("utf-8")
    suite = suite_of(NASTY)
    values, fields, laws, trips = suite.findall("testcase")
    assert f"claims: cause {TAG}" in laws.find("failure").text
    assert suite.get("name") == f"store {TAG}"
    revision = f"revision {QUOTES}"
    rtl = RIGHT_TO_LEFT.replace("\u202e", r"\u202e").replace("\u202c", r"\u202c")
    assert values.get("name") == f"family {TAG} ({revision}): values migrate to target {rtl}"
    lines = values.find("failure").text.splitlines()
    assert lines[:3] == [
        f"2 values: cause {TAG}",
        r"  second line bell\x07 escape\x1b[31m null\x00 next\x85 line",
        r"  next\ttab \udc80 \ufffe",
    ]
    assert f"  key: {CONTROL_SHOWN}" in lines
    assert f"  key: {LONG_KEY}" in lines
    assert f"  key: {rtl}" in lines
    lost = fields.find("failure").text
    assert f"loss {TAG} had values, such as {CONTROL_SHOWN}: nothing is left" in lost
    came_back = trips.find("failure").text
    assert f"  key: {QUOTES}: {QUOTES} came back as {QUOTES}" in came_back
    assert not set("\x00\x07\x1b\x85\udc80\ufffe\u202e\u202c") & set(text)
