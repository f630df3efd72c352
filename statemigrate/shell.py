"""The commands that messages propose, as a shell takes them."""

from __future__ import annotations

import os
import shlex

from statemigrate.escapes import is_visible


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
