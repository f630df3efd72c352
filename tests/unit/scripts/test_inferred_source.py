"""The functions that are written for telling changes, as a person reads them."""

from pathlib import Path
from textwrap import dedent

import pytest
from linting import ruff

from statemigrate.errors import ScriptError
from statemigrate.formats import Avro, Struct
from statemigrate.scripts.inference import infer_transforms

RENAME = """
def upgrade(value: Value) -> Value:
    return {
        "seller": value["seller"],
        # QUESTION: was `price` renamed to `amount`? Delete this line once it is right.
        "amount": value["price"],
    }


def downgrade(value: Value) -> Value:
    return {
        "seller": value["seller"],
        "price": value["amount"],
    }
"""

NESTED = """
def upgrade(value: Value) -> Value:
    return {
        "item": {
            # QUESTION: did `name` move to `item.name`? Delete this line once it is right.
            "name": value["name"],
            # QUESTION: `item.colour` is new: is None right? Delete this line once it is right.
            "colour": None,
        },
        # QUESTION: can every `total` be made decimal(18,2) like this?
        "total": None if value["total"] is None else Decimal(value["total"]),
    }


def downgrade(value: Value) -> Value:
    item = value["item"] or {}
    return {
        "name": item.get("name"),
        # QUESTION: can every `total` be made long like this? Delete this line once it is right.
        "total": None if value["total"] is None else int(value["total"]),
    }


# Fields of `new` that `downgrade` has no place for.
drops = ("item.colour",)
"""

OUT_OF_A_STRUCT = """
def upgrade(value: Value) -> Value:
    item = value["item"] or {}
    return {
        # QUESTION: did `item.name` move to `name`? Delete this line once it is right.
        "name": item.get("name"),
    }


def downgrade(value: Value) -> Value:
    return {
        "item": {
            "name": value["name"],
        },
    }
"""

LIST_OF_STRUCTS = """
def upgrade(value: Value) -> Value:
    return {
        "bids": None if value["bids"] is None else [None if each is None else _upgrade_bids(each) for each in value["bids"]],
    }


def _upgrade_bids(value: Value) -> Value:
    return {
        "amount": value["amount"],
        # QUESTION: `bids[].at` is new: is datetime(1970, 1, 1, tzinfo=UTC) right?
        "at": datetime(1970, 1, 1, tzinfo=UTC),
    }


def downgrade(value: Value) -> Value:
    return {
        "bids": None if value["bids"] is None else [None if each is None else _downgrade_bids(each) for each in value["bids"]],
    }


def _downgrade_bids(value: Value) -> Value:
    return {
        # QUESTION: does every `bids[].amount` fit into int? Delete this line once it is right.
        "amount": value["amount"],
    }


# Fields of `new` that `downgrade` has no place for.
drops = ("bids[].at",)
"""  # noqa: E501

MAP_OF_TYPES = """
def upgrade(value: Value) -> Value:
    return {
        # QUESTION: is `times{}` made string like this? Delete this line once it is right.
        "times": {key: str(each) for key, each in value["times"].items()},
    }


def downgrade(value: Value) -> Value:
    return {
        # QUESTION: can every `times{}` be made int like this? Delete this line once it is right.
        "times": {key: int(each) for key, each in value["times"].items()},
    }
"""

ADDED_NULLABLE = """
def upgrade(value: Value) -> Value:
    return {
        "a": value["a"],
        # QUESTION: `b` is new: is None right? Delete this line once it is right.
        "b": None,
        # QUESTION: `c` is new: is None right? Delete this line once it is right.
        "c": None,
    }


def downgrade(value: Value) -> Value:
    return {
        "a": value["a"],
    }


# Fields of `new` that `downgrade` has no place for.
drops = ("b", "c")
"""

REMOVED = """
def upgrade(value: Value) -> Value:
    return {
        "a": value["a"],
        # QUESTION: `b` goes nowhere: is it meant to be lost? Then add it to `drops`.
        # QUESTION: `c` goes nowhere: is it meant to be lost? Then add it to `drops`.
    }


def downgrade(value: Value) -> Value:
    return {
        "a": value["a"],
        # QUESTION: `b` was removed: is Decimal("0.00") right? Delete this line once it is right.
        "b": Decimal("0.00"),
        # QUESTION: `c` was removed: is None right? Delete this line once it is right.
        "c": None,
    }
"""

CASES = {
    "rename": ("seller INT, price BIGINT", "seller INT, amount BIGINT", RENAME),
    "nested": (
        "name STRING, total BIGINT",
        "item STRUCT<name: STRING, colour: STRING>, total DECIMAL(18,2)",
        NESTED,
    ),
    "out of a struct": ("item STRUCT<name: STRING>", "name STRING", OUT_OF_A_STRUCT),
    "list of structs": (
        "bids ARRAY<STRUCT<amount: INT>>",
        "bids ARRAY<STRUCT<amount: BIGINT, at: TIMESTAMP NOT NULL>>",
        LIST_OF_STRUCTS,
    ),
    "added nullable": ("a INT", "a INT, b STRING, c STRUCT<d: INT NOT NULL>", ADDED_NULLABLE),
    "removed": ("a INT, b DECIMAL(9,2) NOT NULL, c STRING", "a INT", REMOVED),
}


@pytest.mark.parametrize(("old", "new", "source"), CASES.values(), ids=CASES)
def test_a_change_reads_as_an_engineer_would_write_it(old: str, new: str, source: str) -> None:
    assert infer_transforms(Struct(old), Struct(new)).source == source.strip()


def test_the_values_of_a_map_that_cannot_be_none_are_converted_in_place() -> None:
    def times(kind: str) -> Avro:
        field = {"name": "times", "type": {"type": "map", "values": kind}}
        return Avro({"type": "record", "name": "R", "fields": [field]})

    assert infer_transforms(times("int"), times("string")).source == MAP_OF_TYPES.strip()


def upgrade_of(old: str, new: str) -> str:
    return infer_transforms(Struct(old), Struct(new)).source.partition("\n\n\n")[0]


def test_of_several_similar_names_the_most_similar_is_the_rename() -> None:
    source = upgrade_of("price INT, prices_seen INT", "prices INT, price_seen INT")
    assert '"prices": value["price"]' in source
    assert '"price_seen": value["prices_seen"]' in source


def test_two_fields_of_a_type_with_other_names_are_no_rename() -> None:
    assert '"x": None' in upgrade_of("abc INT, def INT", "x INT")


def test_a_wider_type_with_a_similar_name_is_a_rename() -> None:
    assert '"prices": value["price"]' in upgrade_of("price INT, q INT", "prices BIGINT, r INT")


def test_the_way_back_undoes_a_rename_to_a_wider_type() -> None:
    transforms = infer_transforms(Struct("price INT, q INT"), Struct("prices BIGINT, r INT"))
    downgrade = transforms.source.partition("def downgrade")[2]
    assert '"price": value["prices"]' in downgrade
    assert '"q": value["r"]' in downgrade


def test_items_that_may_be_none_get_a_zero_where_the_new_type_has_no_none() -> None:
    def tags(items: object) -> Avro:
        field = {"name": "tags", "type": {"type": "array", "items": items}}
        return Avro({"type": "record", "name": "R", "fields": [field]})

    source = infer_transforms(tags(["null", "string"]), tags("string")).source
    lines = [line.strip() for line in source.splitlines()]
    assert lines[2:4] == [
        '# QUESTION: is "" right where `tags[]` was None? Delete this line once it is right.',
        '"tags": ["" if each is None else each for each in value["tags"]],',
    ]


def test_a_struct_with_a_similar_name_is_renamed_and_changed_inside() -> None:
    source = upgrade_of(
        "item STRUCT<name: STRING, a: INT>", "items STRUCT<name: STRING, b: STRING>"
    )
    assert "was `item` renamed to `items`?" in source
    assert '_upgrade_items(value["item"])' in source


def test_an_alias_of_an_avro_field_says_what_it_was_called_without_a_question() -> None:
    def record(field: dict[str, object]) -> Avro:
        return Avro({"type": "record", "name": "R", "fields": [field]})

    transforms = infer_transforms(
        record({"name": "a", "type": "int"}),
        record({"name": "zzz", "type": "int", "aliases": ["a"]}),
    )
    assert transforms.questions == ()
    assert '"zzz": value["a"]' in transforms.source
    assert '"a": value["zzz"]' in transforms.source


def test_an_avro_default_fills_an_added_field_and_is_asked_about() -> None:
    fields = [
        {"name": "a", "type": "int"},
        {"name": "s", "type": "string", "default": 'it\'s "x"'},
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
        {"name": "n", "type": ["int", "null"], "default": 7},
    ]
    transforms = infer_transforms(
        Avro({"type": "record", "name": "R", "fields": fields[:1]}),
        Avro({"type": "record", "name": "R", "fields": fields}),
    )
    assert [each.partition(" is new")[0] for each in transforms.questions] == [
        "# QUESTION: `s`",
        "# QUESTION: `m`",
        "# QUESTION: `n`",
    ]
    lines = transforms.source.splitlines()
    told = "\n".join(line for line in lines if "# QUESTION:" not in line)
    assert told.startswith(
        dedent(
            """\
            def upgrade(value: Value) -> Value:
                return {
                    "a": value["a"],
                    "s": 'it\\'s "x"',
                    "m": {
                        "k": 1,
                    },
                    "n": 7,
                }
            """
        ).rstrip()
    )


def test_a_default_of_several_lines_gets_a_function_where_a_value_may_be_none() -> None:
    source = infer_transforms(
        Struct("item STRUCT<a: INT>"), Struct("item STRUCT<a: INT, b: STRING> NOT NULL")
    ).source
    assert "_upgrade_item_default() if value" in source
    assert "def _upgrade_item_default() -> Value:\n" in source


def test_names_that_python_has_a_use_for_are_no_variables() -> None:
    source = infer_transforms(
        Struct("class STRUCT<a: INT>, list STRUCT<b: INT>, _id STRUCT<c: INT>"),
        Struct("a INT, b INT, c INT"),
    ).source
    for line in ('class_ = value["class"] or {}', 'list_ = value["list"]', 'id_ = value["_id"]'):
        assert f"    {line}" in source


AWKWARD = ["", "'", '"', "'\"", "\\", "\n\0", "größer 值 \U0001f600", "{x}", "\x7f"]


def test_defaults_with_any_character_are_written_as_the_formatter_would(folder) -> None:
    fields = [{"name": "a", "type": "int"}] + [
        {"name": f"s{number}", "type": "string", "default": text}
        for number, text in enumerate(AWKWARD)
    ]
    fields += [
        {"name": "b", "type": "bytes", "default": "\u00ff\u0000'"},
        {"name": "x", "type": "bytes", "default": "ab'\n"},
        {"name": "d", "type": "double", "default": float("inf")},
        {"name": "l", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
    ]
    old, new = (Avro({"type": "record", "name": "R", "fields": f}) for f in (fields[:1], fields))
    path = folder.new("auctions", "x", old=old, new=new, infer=True)
    (migration,) = folder.lineage("auctions").migrations
    assert migration.upgrade is not None
    assert migration.upgrade({"a": 1}) == new.conform({"a": 1})
    assert ruff(path, "format", "--diff") == ""


LONG = "a_name_of_thirty_characters_xx"
HOOK = """
[[tool.statemigrate.post_write_hooks]]
name = "format"
type = "module"
module = "ruff"
options = "format --line-length 100 REVISION_SCRIPT_FILENAME"
"""


def test_long_names_are_broken_by_the_teams_formatter(folder, tmp_path, monkeypatch) -> None:
    longer = f"{LONG}_and_twenty_eight_more_of_it"
    item = f"STRUCT<{longer}: DOUBLE, x: INT>"
    old = f"{LONG} ARRAY<{item}>, {longer} MAP<STRING, {item}> NOT NULL, {longer}_folded {item}"
    new = (
        f"{LONG} ARRAY<STRUCT<{longer}: DECIMAL(9,2)>>, "
        f"{longer} MAP<STRING, STRUCT<x: STRING>>, x INT"
    )
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text(HOOK)
    path = folder.new("auctions", "x", old=Struct(old), new=Struct(new), infer=True)
    assert ruff(path, "format", "--diff") == ""
    text = path.read_text().partition("def upgrade")[2]
    assert max(len(line) for line in text.splitlines()) <= 100


WHOLE = """\
from decimal import Decimal

from statemigrate.formats import Struct, Value
"""


def test_a_script_imports_what_its_functions_need(folder) -> None:
    path = folder.new(
        "auctions", "x", old=Struct("a BIGINT"), new=Struct("a DECIMAL(9,2)"), infer=True
    )
    text = path.read_text()
    assert f'"""\n\n{WHOLE}\n# Identify' in text
    assert text.endswith('else int(value["a"]),\n    }\n')


def test_a_template_without_the_functions_is_refused_and_leaves_no_script(folder) -> None:
    template = folder.directory / "script.py.mako"
    template.write_text(template.read_text().replace("${transforms}", "# mine"))
    with pytest.raises(ScriptError, match="leaves out the generated functions") as caught:
        folder.new("auctions", "x", old=Struct("a INT"), new=Struct("b INT"), infer=True)
    assert caught.value.found == "no ${transforms}"
    assert "${transforms} and ${library_imports}" in str(caught.value.expected)
    assert caught.value.data == {"path": str(template)}
    assert list(folder.versions.iterdir()) == []


@pytest.mark.parametrize(("formats", "missing"), [({"old": Struct("a INT")}, "new"), ({}, "old")])
def test_functions_are_inferred_from_two_formats_only(folder, formats, missing) -> None:
    with pytest.raises(ScriptError, match=f"no `{missing}` format to infer"):
        folder.new("auctions", "x", infer=True, **formats)
