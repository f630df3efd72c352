"""Text in the Markdown of `plan` and `preview`, as a renderer of GitHub's Markdown shows it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from statemigrate.quoting import markdown_text, visible
from tests.support.hostile import fuzzed
from tests.support.hostile_names import names

# What the commands put around a text: a heading, a cell of a table, an item of a list.
AROUND = {
    "a heading": "### State of: {}",
    "a cell": "| Store | Verdict |\n|---|---|\n| of: {} | rewrite |",
    "an item": "- not compared, of: {}",
}
# With tables and strikethrough, as GitHub has them. It passes HTML on, as GitHub does.
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# A comment that shows nothing, which `markdown_text` puts into addresses and mentions.
NOTHING = "<!-- -->"

MARKS = st.text("a0_*~`|<>[]()!#&;:/\\@-+=.x\n\t ")
texts = st.text() | MARKS | st.from_regex(r"\w_+\w+_*\W*") | names()


def shown_text(document):
    """The text that a reader sees behind ``of:``, and the names of all else that is in its line."""
    lines = [token for token in MARKDOWN.parse(document) if token.type == "inline"]
    (line,) = (token for token in lines if "of:" in token.content)
    nothing = ("html_inline", NOTHING)
    parts = [part for part in line.children if (part.type, part.content) != nothing]
    text = "".join(part.content for part in parts if part.type == "text")
    return text.partition("of:")[2].strip(), {part.type for part in parts} - {"text"}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@fuzzed
@given(text=texts)
@example(text="0_0")
@example(text="_a_ *b* ~~c~~ `d` ![e](f) [g][h] <i> &amp; | j")
@example(text="a_**b**_c")
@example(text=NOTHING)
@example(text="\\|\\\\|")
def test_markdown_shows_any_text_as_it_is_and_takes_nothing_in_it_for_markup(around, text):
    # A reader does not see blanks at the ends of a line.
    assert shown_text(around.format(markdown_text(text))) == (visible(text).strip(), set())


@fuzzed
@given(st.text("@w./:htps "))
@example("https://www.example.org @someone")
def test_markdown_has_no_address_and_no_mention(text):
    shown = markdown_text(text)
    assert "://" not in shown
    assert "www." not in shown
    assert all(part.startswith(NOTHING) for part in shown.split("@")[1:])
