from statemigrate.demo.verdict import KeyComparison, compare_summaries


def auction(bids, total, highest, name="lot-1"):
    return (3, name, "maps", None, bids, total, highest)


EXPECTED = {
    "auction-0": auction(2, 700, 400),
    "auction-1": auction(0, 0, None),
    "person-0": (None, "Ada", None, "Fez", None, None, None),
}


def test_equal_summaries_have_no_difference():
    assert compare_summaries(EXPECTED, dict(EXPECTED)) == KeyComparison(3, 0, 0, 0, 0)
    assert compare_summaries(EXPECTED, dict(EXPECTED)).is_equal


def test_nothing_to_compare_is_not_equal():
    assert not compare_summaries({}, {}).is_equal


def test_a_lost_key_is_missing():
    found = {key: row for key, row in EXPECTED.items() if key != "person-0"}
    comparison = compare_summaries(EXPECTED, found)
    assert comparison == KeyComparison(
        3, 1, 0, 0, 0, (f"person-0: expected {EXPECTED['person-0']}, found None",)
    )
    assert not comparison.is_equal


def test_a_key_of_no_event_is_unexpected():
    comparison = compare_summaries(EXPECTED, {**EXPECTED, "auction-9": auction(1, 1, 1)})
    assert (comparison.missing, comparison.unexpected, comparison.differing) == (0, 1, 0)
    assert not comparison.is_equal


def test_another_name_differs_but_is_not_counted_twice():
    found = {**EXPECTED, "auction-0": auction(2, 700, 400, name="lot-2")}
    comparison = compare_summaries(EXPECTED, found)
    assert (comparison.differing, comparison.counted_twice) == (1, 0)
    assert not comparison.is_equal


def test_a_lost_bid_differs_but_is_not_counted_twice():
    comparison = compare_summaries(EXPECTED, {**EXPECTED, "auction-0": auction(1, 300, 300)})
    assert (comparison.differing, comparison.counted_twice) == (1, 0)


def test_too_many_bids_or_too_large_a_sum_is_counted_twice():
    found = {**EXPECTED, "auction-0": auction(3, 700, 400), "auction-1": auction(0, 50, None)}
    comparison = compare_summaries(EXPECTED, found)
    assert (comparison.differing, comparison.counted_twice) == (2, 2)


def test_only_the_first_differences_are_shown():
    expected = {f"auction-{number}": auction(1, 1, 1) for number in range(10)}
    comparison = compare_summaries(expected, {})
    assert comparison.missing == 10
    assert len(comparison.examples) == 3
