"""The words of Spark's DDL: names, texts, comments, and where each stands."""

import pytest

from statemigrate.errors import FormatError
from statemigrate.formats.struct.ddl import parse_ddl, words_of


def test_a_text_is_split_into_words_names_texts_and_signs():
    found = words_of("a_1 DECIMAL(10,2), `b``c` STRUCT<> COMMENT 'it\\'s'")
    assert [(each.kind, each.text) for each in found] == [
        ("word", "a_1"),
        ("word", "DECIMAL"),
        ("sign", "("),
        ("word", "10"),
        ("sign", ","),
        ("word", "2"),
        ("sign", ")"),
        ("sign", ","),
        ("name", "b`c"),
        ("word", "STRUCT"),
        ("sign", "<>"),
        ("word", "COMMENT"),
        ("text", "'it\\'s'"),
    ]


def test_comments_are_left_out_and_words_keep_their_places():
    text = "a -- the id\nINT /* of\nan */, `--` DATE"
    assert [text[each.start : each.end] for each in words_of(text)] == [
        "a",
        "INT",
        ",",
        "`--`",
        "DATE",
    ]


@pytest.mark.parametrize("name", ["show", "add", "order", "comment", "call", "żółw", "1st"])
def test_a_field_may_have_the_name_of_a_command(name):
    fields = parse_ddl(f"{name} INT, b STRUCT<{name}: DATE>")["fields"]
    assert fields[0]["name"] == name
    assert fields[1]["type"]["fields"][0]["name"] == name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a INT COMMENT 'open", '"\'" at line 1, column 15'),
        ("a INT,\n`open DATE", "'`' at line 2, column 1"),
        ("a INT /* /* */ */", "'/' at line 1, column 7"),
        ("a INT; b INT", "';' at line 1, column 6"),
    ],
)
def test_what_is_left_open_is_shown_where_it_begins(text, found):
    with pytest.raises(FormatError) as caught:
        parse_ddl(text)
    assert caught.value.found == found
