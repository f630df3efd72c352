"""Quoting: text for terminals, reports, comments and shells.

Texts for terminals, reports and comments: an escape for each character that nobody sees.

Names, keys, values and the texts of exceptions come from checkpoints and scripts. What is not seen
could steer a terminal, break XML, end a comment, or show the characters around it in another order.
"""

from __future__ import annotations

import html
import os
import re
import shlex

from statemigrate.errors import without_credentials

# Control characters, what turns the direction of the text around it, tags that nobody sees, and
# what XML does not allow.
_CLASS = (
    r"\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\ufffe\uffff\U000e0000-\U000e007f"
)
_UNSEEN = re.compile(rf"[\x00-\x1f{_CLASS}]")
_UNSEEN_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f{_CLASS}]")
_HALVES = re.compile("[\ud800-\udfff]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: object) -> str:
    r"""The text on one line, with an escape such as ``\x1b`` for each character nobody sees."""
    return _UNSEEN.sub(_escape, without_credentials(str(text)))


def printable(text: str) -> str:
    """The text in its lines, everything else as `visible` shows it."""
    return _UNSEEN_IN_LINES.sub(_escape, without_credentials(text))


def printable_json(text: str) -> str:
    """A JSON text that says the same, with JSON's own escape for each character nobody sees."""
    return _UNSEEN_IN_LINES.sub(_json_escape, without_credentials(text))


def html_text(text: object) -> str:
    """Text that HTML shows as it is, as `visible` has it: between tags, or in quotes."""
    return html.escape(visible(text))


def visible_lines(text: str) -> list[str]:
    """The lines of a text, each `visible`."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def is_visible(text: str) -> bool:
    """Whether a text is on one line and has no character that nobody sees."""
    return _UNSEEN.search(text) is None


def is_text(value: object) -> bool:
    """Whether a value is a text that has a UTF-8 form: one without half a character."""
    return isinstance(value, str) and not _HALVES.search(value)


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    code = ord(found)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(found) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _json_escape(match: re.Match[str]) -> str:
    # Beyond the first plane JSON has two halves.
    halves = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(halves[i : i + 2], 'big'):04x}" for i in range(0, len(halves), 2)
    )


# The commands that messages propose, as a shell takes them.


# An underscore between letters or digits means nothing there, as in names of columns.
_MARKDOWN = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[\\`*{}\[\]()<>#+!|~&$-]")


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is: in a table, too, and without links or mentions."""
    escaped = _MARKDOWN.sub(lambda found: f"\\{found[0]}", visible(text))
    # A comment ends what GitHub takes for a mention, and what it makes a link of.
    return (
        escaped.replace("@", "@<!-- -->")
        .replace("://", ":<!-- -->//")
        .replace("www.", "www<!-- -->.")
    )


def argument(value: object) -> str:
    """One word of a shell that is ``value``, without a character that nobody sees.

    Where there is such a character, the word is written in the ``$'...'`` of bash, zsh and ksh.
    """
    text = str(value)
    return shlex.quote(text) if is_visible(text) else _with_escapes(text)


def _with_escapes(text: str) -> str:
    return f"$'{''.join(map(_character, text))}'"


def _character(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if is_visible(character):
        return character
    # As bytes, which mean the same in every locale. No name of a file has half a character.
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(_whole(character)))


def _whole(character: str) -> str:
    try:
        os.fsencode(character)
    except UnicodeEncodeError:
        return "\N{REPLACEMENT CHARACTER}"
    return character
