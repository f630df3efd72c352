"""A preview as one self-contained page, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree as ET

from statemigrate.formats import json_text
from statemigrate.inspect import counted, rendered, utc_time
from statemigrate.preview import Difference, Preview
from statemigrate.quoting import visible

PATHS = {
    "as it is": "The new code starts on the state as it is.",
    "live": "Scripts migrate the state while the new code runs.",
    "rewritten": "The state was rewritten before the new code started.",
}
"""What became of the state before the new code ran, as a sentence."""


@dataclass(frozen=True)
class _Example:
    batch: int
    change: str
    key: str
    before: str
    after: str


@dataclass(frozen=True)
class _Store:
    name: str
    rows: tuple[tuple[int, Difference], ...]
    examples: tuple[_Example, ...]


def preview_page(found: Preview) -> str:
    """The preview as an HTML page, without scripts and without external resources.

    All names, texts and values are escaped, and the page's own policy allows only its one style
    sheet. The examples have keys and values of the state, masked as those of the preview are.
    """
    names = dict.fromkeys(one.store for each in found.batches for one in each.differences)
    return rendered(
        "preview.mako",
        found=found,
        facts=list(_facts(found)),
        stores=[_store(found, name) for name in names],
        headline=_headline(found),
        grade="good" if found.is_expected else "bad",
        shown_fields=fields_text,
        made_at=utc_time(datetime.now(UTC).timestamp()),
        version=version("statemigrate"),
    )


def _headline(found: Preview) -> str:
    if found.is_expected:
        return "Nothing differs but what is expected."
    count = len(found.unexpected)
    return f"{count:,} {'difference is' if count == 1 else 'differences are'} not expected."


def _facts(found: Preview) -> Iterator[tuple[str, str]]:
    first, last = found.batches[0].batch, found.batches[-1].batch
    yield "Batches", f"{first:,} to {last:,}"
    yield "State", PATHS[found.path].removesuffix(".")
    yield "Compared with", "the old code" if found.old_code else "the state of the query"
    new = sum(each.new_seconds for each in found.batches)
    old = [each.old_seconds for each in found.batches if each.old_seconds is not None]
    yield "Time of the new code", f"{new:.1f} s"
    if old:
        yield "Time of the old code", f"{sum(old):.1f} s"
    if found.square is not None:
        same = all(each.is_same for each in found.square)
        yield "Migrated after and before the batches", "the same state" if same else "other states"


def _store(found: Preview, name: str) -> _Store:
    rows = tuple(
        (each.batch, one) for each in found.batches for one in each.differences if one.store == name
    )
    # The last batch that differs shows what is left of a difference.
    differing = [(batch, one) for batch, one in rows if one.examples][-1:]
    return _Store(
        name,
        rows,
        tuple(
            _Example(batch, each.change, _text(each.key), _text(each.before), _text(each.after))
            for batch, one in differing
            for each in one.examples
        ),
    )


def _text(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else json_text(dict(row))


def fields_text(found: Difference) -> str:
    """The fields of a store that differ, with how many values do, and those of one side alone."""
    texts = [f"{name} {count:,}" for name, count in found.fields.items()]
    texts += [f"{name} new" for name in found.only_new]
    texts += [f"{name} gone" for name in found.only_old]
    return ", ".join(texts)


def preview_junit(found: Preview) -> str:
    """The preview as JUnit XML: a case for each store, the watermark and the square.

    A case fails with what nobody has expected of it. Characters that XML forbids are escapes.
    """
    root = ET.Element("testsuites", {"name": "statemigrate preview"})
    suite = ET.SubElement(root, "testsuite", {"name": visible(found.code)})
    names = dict.fromkeys(one.store for each in found.batches for one in each.differences)
    cases = {
        f"{name} is as expected": [
            text
            for each in found.batches
            for one in each.differences
            if one.store == name
            for text in (f"batch {each.batch}: {t}" for t in found.expectations.unexpected(one))
        ]
        for name in names
    }
    cases["the watermark is the same"] = [
        f"batch {each.batch}: {each.watermark} in place of {each.old_watermark}"
        for each in found.batches
        if each.watermark != each.old_watermark
    ]
    if found.square is not None:
        cases["migrated after the batches and before them the state is the same"] = [
            text for text in found.unexpected if text.startswith("migrated after")
        ]
    seconds = sum(each.new_seconds + (each.old_seconds or 0) for each in found.batches)
    for name, wrong in cases.items():
        where = {"classname": f"statemigrate.preview.{visible(found.code)}", "name": visible(name)}
        case = ET.SubElement(suite, "testcase", {**where, "time": f"{seconds / len(cases):.3f}"})
        if wrong:
            message = f"{counted(len(wrong), 'difference')} not expected"
            ET.SubElement(case, "failure", message=message).text = "\n".join(map(visible, wrong))
    failures = str(sum(1 for wrong in cases.values() if wrong))
    for each in (root, suite):
        counts = {"tests": str(len(cases)), "failures": failures, "errors": "0"}
        each.attrib.update({**counts, "time": f"{seconds:.3f}"})
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"
