"""What `show` calls a rename or a move is what `new --autogenerate` takes for one."""

import re

from format_pairs import FormatPair, format_pairs
from hypothesis import given, settings

from statemigrate.formats import Avro, compare
from statemigrate.formats.schema.matching import CONVERTIBLE
from statemigrate.scripts.conversions import _BETWEEN
from statemigrate.scripts.inference import infer_transforms

RENAMED = re.compile(r"was `(.*?)` renamed to `(.*?)`|did `(.*?)` move to `(.*?)`")


@settings(max_examples=70)
@given(format_pairs())
def test_the_same_fields_are_paired(pair: FormatPair) -> None:
    old, new = Avro(pair.old), Avro(pair.new)
    asked = {
        tuple(filter(None, found.groups()))
        for question in infer_transforms(old, new).questions
        for found in [RENAMED.search(question)]
        if found
    }
    shown = {
        (change.source, change.path)
        for change in compare(old, new).changes
        if change.source is not None and "alias" not in change.note
    }
    assert asked <= shown


def test_every_pair_of_kinds_with_a_conversion_counts_as_convertible() -> None:
    assert set(_BETWEEN) == CONVERTIBLE
