"""What `dry-run` prints, whole."""

import io
import sys
from dataclasses import replace

import pytest
from support.dry_runs import CONTROL, EMPTY, GOOD, LONG_KEY, LOSING, NASTY, NOT_SAMPLED, REPORT, TAG

from statemigrate.cli.dry_run_command import print_report
from statemigrate.quoting import argument

WHOLE = """\
Dry run of auctions to 9f2d6c1b7e05
1,000,417 of 1,000,420 values migrate; 3 fail for 2 causes.
1,000,420 of 1,250,420 values were tried; 250,000 are outside the sample.
5,112 values are in the target's format already.

family
  revision              stored      tried       passed    failed   differing
auctions_04cb3bbb72d2   420         420         420       0        no way back
  04cb3bbb72d2
auctions                1,250,000   1,000,000   999,997   3        12
  base

auctions_04cb3bbb72d2 (04cb3bbb72d2)
Round trips: There is no way back: a migration on the path has no downgrade.
Fields, compared in 420 values:
  field   effect   values   key   before   after
  price   kept     420
Size as Avro: 26.4 KiB before and 26.4 KiB after (+0.0%).

auctions (base)
Failures: 3 values
  2 values: ValueError: price 'n/a' is no decimal
    key '["auction-17"]'
    key '["auction-90210"]'
  1 value: KeyError: 'currency'
    key '["auction-4711"]'
Round trips: 12 of 999,997 values came back from downgrade(upgrade(value)) other
than before.
  price: 12 values
    key '["auction-8"]': 12.345 came back as 12.34
  note: 2 values
Fields, compared in 10,000 values:
  field                effect    values   key               before    after
  item.name            added     10,000   '["auction-1"]'   nothing   "Lamp"
  name                 removed   10,000   '["auction-1"]'   "Lamp"    nothing
  closes → item.ends   renamed   10,000   '["auction-1"]'   17        17
  price                changed   9,990    '["auction-1"]'   10.5      "10.50"
  price                kept      10
  seller               kept      10,000
Size as Avro: 58.2 MiB before and 63.4 MiB after (+9.0%).

Tried 1,000,420 values in 41.7 s, 23,991 a second.
A backfill of 1,250,420 values would take about 25 min 30 s, 1,251 batches.
Estimated from: 1,000 values a batch, a batch in 1.2 s
Not ready: 3 values would not migrate.
Next: correct `upgrade` so that it takes these values, then run the dry run
again.
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def printed(monkeypatch):
    """The lines that a terminal of 80 columns gets, or a pipe."""

    def print_one(report, stream=Terminal):
        text = stream()
        monkeypatch.setattr(sys, "stdout", text)
        monkeypatch.setenv("COLUMNS", "80")
        # No colours.
        monkeypatch.setenv("TERM", "dumb")
        print_report(report)
        return [line.rstrip() for line in text.getvalue().splitlines()]

    return print_one


def test_a_terminal_of_80_columns_gets_everything(printed):
    assert printed(REPORT) == WHOLE.splitlines()
    assert max(map(len, WHOLE.splitlines())) <= 80


def test_a_pipe_gets_every_sentence_on_a_line_of_its_own(printed):
    lines = printed(REPORT, io.StringIO)
    assert " ".join(lines).split() == WHOLE.split()
    assert lines[-1] == (
        "Next: correct `upgrade` so that it takes these values, then run the dry run again."
    )


def test_a_good_run_ends_with_what_to_deploy(printed):
    lines = printed(GOOD)
    assert lines[1] == "All 1,000,000 values migrate."
    assert not [line for line in lines if line.startswith("Failures")]
    assert "Round trips: 1,000,000 values went there and back and came out the same." in lines
    assert lines[-2:] == [
        "Ready to deploy: every value migrates.",
        "Next: deploy the code that is written for revision 9f2d6c1b7e05.",
    ]


def test_lost_and_constant_fields_are_named_with_the_function_and_what_to_do(printed):
    lines = printed(LOSING)
    assert lines[1] == "All 1,000,000 values migrate, but note and item.colour would be lost."
    start = lines.index("auctions (base)") + 1
    assert lines[start : start + 5] == [
        'Lost: note had values, such as "blue": nothing is left of them after upgrade',
        "Lost: item.colour had values: nothing is left of them after upgrade",
        'Lost: seller had values, such as "Ann": nothing is left of them after upgrade;',
        "the script says that this is meant",
        "Constant: total had different values: all are 0 after upgrade",
    ]
    assert lines[-4:] == [
        "Not ready: note and item.colour would be lost.",
        "Next: correct `upgrade` in m/versions/a1.py so that it keeps note; if it is",
        "meant to be lost, add 'note' to `drops` in that script. 1 more. Then run the dry",
        "run again.",
    ]


def test_an_empty_run_is_short(printed):
    assert printed(EMPTY) == [
        "Dry run of auctions to 9f2d6c1b7e05",
        "No value is left to migrate.",
        "5,112 values are in the target's format already.",
        "",
        "Nothing to do.",
        "Next: nothing; the store needs no migration.",
    ]


def test_a_family_outside_the_sample_is_only_in_the_table(printed):
    assert printed(replace(GOOD, families=(NOT_SAMPLED,), backfill=None)) == [
        "Dry run of auctions to 9f2d6c1b7e05",
        "None of the 420 values that are left to migrate was tried.",
        "5,112 values are in the target's format already.",
        "",
        "family",
        "  revision              stored   tried   passed   failed   differing",
        "auctions_04cb3bbb72d2   420      0       0        0        0",
        "  04cb3bbb72d2",
        "",
        "Good so far: 420 values not tried.",
        "Next: run the dry run again on all values before you deploy.",
    ]


def test_text_from_state_does_not_steer_the_terminal(printed):
    lines = printed(NASTY, io.StringIO)
    assert not set("".join(lines)) & set("\x00\x07\x1b\x85\udc80\ufffe\u202e\u202c")
    assert lines[0].startswith(f"Dry run of store {TAG} to target \u05e9")
    control = r"bell\x07 escape\x1b[31m null\x00 next\x85 line"
    assert f"    second line {control}" in lines
    assert f"    key {argument(CONTROL)}" in lines


def test_a_long_key_stays_whole(printed):
    assert f"    key {argument(LONG_KEY)}" in printed(NASTY)
