"""What a plan does with variables of another kind, that expire, or of a function's state."""

import json
from dataclasses import replace

import pytest
from rewrite_shapes import checkpoint, operator, struct

from statemigrate.checkpoint.operators.shapes import (
    FamilyShape,
    NoPrefix,
    OperatorShape,
    PrefixScan,
    StoreShape,
)
from statemigrate.checkpoint.stores.provider import PROVIDERS
from statemigrate.cli.rewrite_output import print_rewriting
from statemigrate.commands.rewrite import Rewriting
from statemigrate.errors import RewriteError
from statemigrate.formats import Struct
from statemigrate.migration import Lineage, Migration
from statemigrate.rewrite.family_plans import (
    JoinedFamily,
    MatchedEntries,
    NewFamily,
    ScriptedEntries,
    ScriptedRows,
    TimeoutFamily,
)
from statemigrate.rewrite.questions import RewriteAnswers
from statemigrate.rewrite.rewrite_plan import make_plan, plan_document
from statemigrate.rewrite.script_ways import RewriteScripts, StoreScripts
from statemigrate.rewrite.sources import RewriteOptions
from statemigrate.rewrite.window_columns import NewWindows, changed_keys
from statemigrate.rewrite.windows import KeyMeaning

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
OPTIONS = RewriteOptions(conf={PROVIDER: PROVIDERS["rocksdb"].class_name})
KEY = struct("k STRING")
GROUPS = operator(
    "applyInPandasWithState",
    KEY,
    struct("groupState STRUCT<n: INT>, timeoutTimestamp BIGINT"),
)


def variables(*families, name="transformWithStateInPySparkExec"):
    return OperatorShape(0, name, 2, (StoreShape("default", True, 2, families),), {})


def value(name, ddl="n INT"):
    return FamilyShape(name, KEY, struct(ddl), NoPrefix())


def listed(name, ddl="n INT"):
    return replace(value(name, ddl), is_list=True)


def expiring(name):
    ddl = "value STRUCT<n: INT>, ttlExpirationMs BIGINT"
    return replace(value(name, ddl), wrapping="expiry")


def mapped(name):
    key = struct("key STRUCT<k: STRING>, userKey STRUCT<of: STRING>")
    return FamilyShape(name, key, struct("n INT"), PrefixScan(1), user_key=struct("of STRING"))


def timers():
    by_key = struct("key STRUCT<k: STRING>, expiryTimestampMs BIGINT")
    return FamilyShape("$eventTimers_keyToTimestamp", by_key, struct("nothing VOID"), PrefixScan(1))


def plan(old, new, **answers):
    accepted = frozenset(answers.pop("accept", ()))
    said = RewriteAnswers(accepted, by_name=True, **answers)
    return make_plan(checkpoint(old), [new], OPTIONS, said)


def test_the_state_of_groups_is_asked_about_and_goes_into_the_one_variable():
    made = plan(GROUPS, variables(value("kept"), listed("other"), timers()))
    assert [each.name for each in made.questions] == ["kept", "groups-0.timeouts"]
    assert "event time" in made.questions[1].text
    (planned,) = made.operators
    ways = {each.name: (type(each), each.change) for each in planned.families}
    assert ways["kept"] == (MatchedEntries, "kind")
    assert ways["other"] == (NewFamily, "new")
    assert ways["transform-with-state-0.$eventTimers_keyToTimestamp"] == (TimeoutFamily, "kind")


def test_where_several_variables_could_go_on_one_must_be_said():
    new = variables(value("one"), value("two"))
    with pytest.raises(RewriteError, match="which variable goes on") as caught:
        plan(GROUPS, new)
    assert "--take one=groups-0" in caught.value.next_action
    made = plan(GROUPS, new, take={"two": "groups-0"}, accept=["groups-0.timeouts"])
    assert made.questions == ()
    used = {each.name for each in made.operators[0].families if each.sources}
    assert used == {"two"}


def test_a_variable_goes_on_under_another_name_if_it_is_said():
    made = plan(variables(value("old")), variables(value("new")), take={"new": "old"})
    assert [(each.name, each.change) for each in made.operators[0].families] == [("new", "kept")]
    assert [each.answer for each in made.answered] == ["old"]
    with pytest.raises(RewriteError, match="which there is not"):
        plan(variables(value("old")), variables(value("new")), take={"new": "nothing"})


def test_several_variables_become_one_and_each_field_is_of_one_of_them():
    old = variables(value("left", "n INT"), value("right", "m INT, t INT"), value("both", "t INT"))
    new = variables(value("both", "n BIGINT, m INT"))
    said = {"take": {"both": "left, right"}}
    made = plan(old, new, **said)
    assert {each.name: each.proposal for each in made.questions} == {
        "both": "gone",
        "right.t": "gone",
        "both.m": "null",
        "both.n": "null",
    }
    assert "rows of right have nothing of it" in made.questions[-1].text
    accepted = plan(old, new, **said, accept=["both", "right.t", "both.m"], start={"both.n": 0})
    (joined,) = accepted.operators[0].families
    assert (accepted.questions, accepted.starts) == ((), {"both.n": 0, "both.m": None})
    assert (joined.change, type(joined), len(joined.parts)) == ("joined", JoinedFamily, 2)
    assert accepted.operators[0].change == "joined"
    (document,) = plan_document(accepted)["operators"][0]["families"]
    assert [(each["field"], each["of"], each["change"]) for each in document["value"]] == [
        ("n", "left", "widened"),
        ("m", "left", "new"),
        ("n", "right", "new"),
        ("m", "right", "kept"),
        ("t", "right", "gone"),
    ]


def test_of_several_variables_that_have_a_field_one_must_be_said():
    old = variables(value("left", "n INT, m INT"), value("right", "n INT"))
    new = variables(value("both", "n INT, m INT"))
    with pytest.raises(RewriteError, match="left and right become both") as caught:
        plan(old, new, take={"both": "left,right"})
    assert "--take both.n=left.n" in caught.value.next_action
    made = plan(old, new, take={"both": "left,right", "both.n": "left.n"})
    assert [each.name for each in made.questions] == ["right.n", "both.n", "both.m"]
    lists = plan(variables(listed("a"), listed("b")), variables(listed("c")), take={"c": "a,b"})
    assert lists.questions == ()


def test_what_cannot_become_one_variable_is_refused():
    old, new = variables(value("left"), mapped("of"), timers()), variables(value("both"))
    timed = "transform-with-state-0.$eventTimers_keyToTimestamp"
    for said, match in (
        ("left,nothing", "cannot go on with nothing, which there is not"),
        ("left,left", "cannot go on with all of left, left"),
        (f"left,{timed}", "cannot go on with all of"),
        ("left,of", "and old rows do not say it|meet, since the key has no|of another kind"),
    ):
        with pytest.raises(RewriteError, match=match):
            plan(old, new, take={"both": said})
    counts = operator("stateStoreSave", KEY, struct("count BIGINT"))
    with pytest.raises(RewriteError, match="which there is not"):
        plan(counts, counts, take={"aggregation-0": "aggregation-0,aggregation-1"})


def test_a_value_becomes_a_list_of_one_and_nothing_else_another_kind_by_itself():
    made = plan(variables(value("a")), variables(listed("a")))
    (family,) = made.operators[0].families
    assert (type(family), family.change) == (MatchedEntries, "kind")
    for old, new in ((listed, value), (listed, mapped), (mapped, value), (value, mapped)):
        with pytest.raises(RewriteError, match="another kind, and only you"):
            plan(variables(old("a")), variables(new("a")))


def test_a_time_to_live_is_kept_asked_about_and_taken_off():
    kept = plan(variables(expiring("a")), variables(expiring("a")))
    assert (kept.questions, kept.operators[0].change) == ((), "kept")
    on = plan(variables(value("a")), variables(expiring("a")))
    assert [(each.name, each.proposal) for each in on.questions] == [("a:expires", None)]
    begun = plan(variables(value("a")), variables(expiring("a")), start={"a:expires": 5})
    assert (begun.questions, begun.starts) == ((), {"a:expires": 5})
    off = plan(variables(expiring("a")), variables(value("a")))
    assert [each.proposal for each in off.questions] == ["they stay"]


def test_another_state_format_needs_the_new_code():
    conf = {"spark.sql.streaming.aggregation.stateFormatVersion": "2"}
    with pytest.raises(RewriteError, match="another format") as caught:
        make_plan(checkpoint(GROUPS), None, RewriteOptions(conf=conf))
    assert "--code" in caught.value.next_action


def test_another_kind_is_told_in_words(capsys):
    made = plan(variables(value("a")), variables(listed("a")))
    print_rewriting(Rewriting("old", "new", made))
    told = capsys.readouterr().out
    assert "transform-with-state-0  becomes state of another kind" in told
    assert "--apply" in told


def by_tables(kept, **parts):
    """The plan for a variable ``a`` whose script has a form for tables, with these further parts.

    ``kept`` gives the variable as it is before; with a new key ``k`` is called ``j`` after it.
    """
    n = Struct("n INT")
    parts = {"upgrade_table": lambda table: table, **parts}
    lineage = Lineage.build("a", [Migration("a1", None, "a", n, n, path="a.py", **parts)])
    before, after = checkpoint(variables(kept("a"))), kept("a")
    if "new_key" in parts:
        renamed = json.loads(json.dumps(after.key).replace('"name": "k"', '"name": "j"'))
        after = replace(after, key=renamed)
    scripts = RewriteScripts(StoreScripts(before, {"a": lineage}).of_old())
    made = make_plan(before, [variables(after)], OPTIONS, RewriteAnswers(), scripts)
    return made.operators[0].families[0]


def rename(key, value):
    return {"j": key["k"]}


@pytest.mark.parametrize("kept", [listed, mapped, expiring])
def test_tables_whose_keys_change_are_refused_where_each_entry_takes_something_along(kept):
    key = Struct("j STRING, of STRING") if kept is mapped else Struct("j STRING")
    for parts in ({}, {"rekey": rename}):
        with pytest.raises(RewriteError, match="changes keys of a in tables") as caught:
            by_tables(kept, new_key=key, **parts)
        assert "write rekey(key, value) and upgrade(value) in a.py" in caught.value.next_action
    both = by_tables(kept, new_key=key, rekey=rename, upgrade=lambda value: value)
    assert (type(both), both.change) == (ScriptedEntries, "keys")


def test_tables_whose_keys_change_are_taken_where_a_value_is_all_there_is():
    assert type(by_tables(value, new_key=Struct("j STRING"))) is ScriptedRows


def test_a_list_is_taken_apart_for_tables_of_its_elements():
    assert type(by_tables(listed)) is ScriptedEntries
    assert type(by_tables(value)) is ScriptedRows


@pytest.mark.parametrize("key", ["k STRING", "j STRING, k STRING"])
def test_each_variable_is_asked_about_whose_grouping_key_is_computed_otherwise(key):
    plain = [replace(each, key=struct(key)) for each in (value("one"), listed("many"))]
    grouped = struct(
        f"key STRUCT<{key.replace(' STRING', ': STRING')}>, userKey STRUCT<of: STRING>"
    )
    families = (*plain, replace(mapped("by_region"), key=grouped), expiring("late"), timers())
    families = (*families[:3], replace(families[3], key=struct(key)), families[4])
    shape = variables(*families)
    made = make_plan(checkpoint(shape), [shape], OPTIONS)
    first = tuple(KeyMeaning(each, each) for each in ["j"] * (", " in key))
    before, after = ({0: (*first, KeyMeaning("k", each))} for each in ("name", "Upper(name)"))
    changed = list(changed_keys(made, NewWindows(after, before=before)))
    assert [(each.store, each.column) for each in changed if "$" not in each.store] == [
        ("one", "k"),
        ("many", "k"),
        ("by_region", "k"),
        ("late", "k"),
    ]
    assert list(changed_keys(made, NewWindows(after, before=after))) == []


def test_timers_are_asked_about_once_where_scripts_change_the_keys():
    def shape(column):
        key = struct(f"{column} STRING")
        by_key = struct(f"key STRUCT<{column}: STRING>, expiryTimestampMs BIGINT")
        by_time = struct(f"expiryTimestampMs BIGINT, key STRUCT<{column}: STRING>")
        families = [
            replace(timers(), name=f"$eventTimers_{name}", key=each)
            for name, each in (("keyToTimestamp", by_key), ("timestampToKey", by_time))
        ]
        return variables(replace(value("a"), key=key), *families)

    n = Struct("n INT")
    script = Migration("a1", None, "a", n, n, path="a.py", new_key=Struct("j STRING"), rekey=rename)
    lineage = Lineage.build("a", [script])
    before = checkpoint(shape("k"))
    scripts = RewriteScripts(StoreScripts(before, {"a": lineage}).of_old())
    made = make_plan(before, [shape("j")], OPTIONS, RewriteAnswers(), scripts)
    assert [type(each) for each in made.operators[0].families] == [
        ScriptedRows,
        NewFamily,
        NewFamily,
    ]
    (question,) = made.questions
    assert (question.name, question.kind) == ("transform-with-state-0.timers", "gone")
    assert question.text.startswith("scripts give other keys")
    without = variables(value("a"))
    (question,) = make_plan(before, [without], OPTIONS).questions
    assert question.text.startswith("the new code has no such timers")
