"""`drops`: fields that a script loses on purpose, each of which exists."""

import pytest

from statemigrate.errors import ScriptError
from statemigrate.formats import Struct

FIELDS = "a BIGINT, s STRUCT<x: INT>, l ARRAY<STRUCT<y: INT>>, m MAP<STRING, STRUCT<z: INT>>"


def write_drops(write, drops: str, **parts):
    new = parts.pop("new", 'Struct("a BIGINT")')
    old = parts.pop("old", f'Struct("{FIELDS}")')
    return write("a1", old=old, new=f"{new}\ndrops = {drops}", **parts)


@pytest.mark.parametrize(
    "drops", ['("s",)', '["s.x", "l[].y"]', '("m{}.z", "m")', '("only_new",)', "()"]
)
def test_fields_of_either_format_may_be_named_at_any_depth(folder, write, drops) -> None:
    write_drops(write, drops, new='Struct("a BIGINT, only_new STRING")')
    lineage = folder.lineage("auctions")
    (migration,) = lineage.migrations
    assert migration.drops == tuple(eval(drops))  # noqa: S307
    (step,) = lineage.path("base", "a1").steps
    assert (step.drops, step.direction) == (migration.drops, "upgrade")


def test_the_way_back_is_told_from_the_way_there(folder, write) -> None:
    path = write_drops(write, '("s",)')
    path.write_text(f"{path.read_text()}\n\ndef downgrade(value):\n    return value\n")
    (step,) = folder.lineage("auctions").path("a1", "base").steps
    assert (step.drops, step.direction) == (("s",), "downgrade")


@pytest.mark.parametrize(
    ("drops", "found"),
    [
        ('("no",)', "'no', in neither format"),
        ('("s.no", "a", "l.y")', "'s.no', 'l.y', in neither format"),
        ('("s")', "drops = 's'"),
        ("(1,)", "drops = (1,)"),
        ("None", "drops = None"),
    ],
)
def test_what_is_no_field_is_refused(folder, write, drops, found) -> None:
    path = write_drops(write, drops)
    with pytest.raises(ScriptError) as caught:
        folder.lineages()
    assert caught.value.summary == f"{path}: `drops` names what is no field."
    assert caught.value.found == found
    assert caught.value.next_action == "correct `drops`, or leave it out"


def test_a_baseline_drops_nothing(folder, write) -> None:
    upgrade = "\n\ndef upgrade(value):\n    return value\n"
    write_drops(write, '("a",)', old="None", swap={upgrade: ""})
    with pytest.raises(ScriptError) as caught:
        folder.lineages()
    assert caught.value.found == "drops = ('a',) in a baseline, which transforms nothing"


def test_a_generated_script_declares_what_its_way_back_has_no_place_for(folder) -> None:
    old, new = Struct("a INT"), Struct("a INT, s STRUCT<x: INT>, b STRING")
    folder.new("auctions", "more", old=old, new=new, infer=True)
    (migration,) = folder.lineage("auctions").migrations
    assert migration.drops == ("s", "b")
