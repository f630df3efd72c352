from dataclasses import replace

from support.dry_runs import (
    CONSTANT,
    EMPTY,
    GOOD,
    GOOD_FAMILY,
    LATER,
    LOSING,
    NOT_SAMPLED,
    REPORT,
)

from statemigrate.inspect.dry_run_report import Meetings
from statemigrate.inspect.report_text import headline, meetings, round_trips, sentences, verdict


def test_failures_are_counted_with_their_causes():
    assert headline(REPORT) == "1,000,417 of 1,000,420 values migrate; 3 fail for 2 causes."
    assert sentences(REPORT) == (
        "1,000,420 of 1,250,420 values were tried; 250,000 are outside the sample.",
        "12 of 999,997 values came back from a round trip other than before.",
        "There is no way back for auctions_04cb3bbb72d2.",
        "The values that migrate take 58.2 MiB before and 63.4 MiB after (+9.0%).",
        "5,112 values are in the target's format already.",
        "A backfill of 1,250,420 values would take about 25 min 30 s, 1,251 batches.",
    )
    assert verdict(REPORT).grade == "bad"
    assert verdict(REPORT).text == "Not ready: 3 values would not migrate."


def test_the_same_cause_in_two_families_is_one():
    (other, family) = REPORT.families
    twice = replace(other, tried=3, failed=3, failures=family.failures)
    report = replace(REPORT, families=(twice, family))
    assert headline(report) == "999,997 of 1,000,003 values migrate; 6 fail for 2 causes."


def test_one_failure_is_said_in_the_singular():
    family = replace(LATER, failed=1, failures=REPORT.families[1].failures[1:])
    report = replace(REPORT, families=(family,))
    assert headline(report) == "419 of 420 values migrate; 1 fails for 1 cause."
    assert verdict(report).text == "Not ready: 1 value would not migrate."


def test_all_values_tried_and_good_is_ready():
    assert headline(GOOD) == "All 1,000,000 values migrate."
    assert sentences(GOOD)[0] == "Every value that went there and back came out the same."
    assert verdict(GOOD).grade == "good"
    assert verdict(GOOD).next_action == (
        "deploy the code that is written for revision 9f2d6c1b7e05."
    )


def test_a_sample_is_never_called_ready():
    report = replace(GOOD, families=(replace(GOOD_FAMILY, stored=1_000_001),))
    assert headline(report) == "All 1,000,000 values that were tried migrate."
    assert verdict(report).grade == "doubtful"
    assert verdict(report).text == "Good so far: 1 value not tried."


def test_a_rollback_that_changes_values_is_doubtful():
    report = replace(GOOD, families=(replace(GOOD_FAMILY, differing=7),))
    assert verdict(report).grade == "doubtful"
    assert verdict(report).text == "Migrates, but a rollback would change 7 values."


def test_going_back_names_the_functions_the_other_way_round():
    family = replace(GOOD_FAMILY, direction="downgrade", differing=7)
    report = replace(GOOD, families=(family,))
    assert round_trips(family) == (
        "7 of 1,000,000 values came back from upgrade(downgrade(value)) other than before."
    )
    assert verdict(report).text == "Migrates, but migrating them again would change 7 values."
    assert verdict(report).next_action.startswith("correct `upgrade` and run the dry run again")
    failing = replace(report, families=(replace(family, failed=1),))
    assert verdict(failing).next_action.startswith("correct `downgrade` so that it takes")


def test_a_lost_field_is_never_called_ready():
    assert (verdict(LOSING).grade, LOSING.lost, LOSING.in_order) == ("bad", 2, False)
    assert verdict(LOSING).text == "Not ready: note and item.colour would be lost."
    assert "correct `upgrade` in m/versions/a1.py" in verdict(LOSING).next_action


def test_a_field_with_one_value_left_is_doubtful():
    assert (verdict(CONSTANT).grade, CONSTANT.in_order) == ("doubtful", True)
    assert verdict(CONSTANT).text == "Migrates, but total has one value only afterwards."
    assert verdict(CONSTANT).next_action == (
        "make sure that `upgrade` in m/versions/a1.py means it; then add 'total' to `drops` in "
        "that script, or deploy."
    )


def test_open_questions_are_answered_before_a_deployment():
    asking = replace(GOOD, questions=2)
    assert verdict(asking).text == "Migrates, but 2 questions are open in the scripts."
    assert verdict(asking).grade == "doubtful"
    assert verdict(asking).next_action == (
        "answer what `statemigrate check` lists, then run the dry run again."
    )


def test_nothing_tried_is_not_called_a_success():
    report = replace(GOOD, families=(NOT_SAMPLED,))
    assert headline(report) == "None of the 420 values that are left to migrate was tried."
    assert verdict(report).grade == "doubtful"


def test_nothing_left_needs_no_action():
    assert headline(EMPTY) == "No value is left to migrate."
    assert sentences(EMPTY) == ("5,112 values are in the target's format already.",)
    assert verdict(EMPTY).text == "Nothing to do."


def test_elements_that_come_under_one_key_stop_nothing_and_are_told():
    some = Meetings(7, 3, 2, merges=False, examples=(('{"k": "a"}', 4),), gather=True)
    report = replace(GOOD, meetings=some)
    assert meetings(report) == (
        "Keys change: 7 entries under 3 keys; 6 of them come together under 2 keys, side by side "
        "in a list or a join; in a value or a map they meet without `merge`, such as "
        '{"k": "a"} (4 entries).'
    )
    assert report.in_order
    merged = replace(report, meetings=replace(some, merges=True))
    assert meetings(merged).endswith("in a value or a map they meet and are merged, 4 less.")
    apart = replace(report, meetings=replace(some, gather=False))
    assert not apart.in_order
