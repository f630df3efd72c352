"""The comment lines that ask whether a guess was right."""

from __future__ import annotations

from statemigrate.formats.schema.nodes import Node, type_name
from statemigrate.scripts.source.layout import Comment, Doc, render

MARK = "# QUESTION:"
"""How each of them begins."""
_WORD = MARK.removeprefix("# ")


def renamed(old: str, new: str) -> Comment:
    """Ask whether one field's values belong to another."""
    return _comment(f"was `{old}` renamed to `{new}`?")


def moved(old: str, new: str) -> Comment:
    """Ask whether a field moved into or out of a struct."""
    return _comment(f"did `{old}` move to `{new}`?")


def added(name: str, filling: Doc) -> Comment:
    """Ask for the value of a field that nothing old becomes."""
    return _comment(f"`{name}` is new: is {_short(filling)} right?")


def removed(name: str, filling: Doc) -> Comment:
    """Ask for the value of a field that ``upgrade`` drops."""
    return _comment(f"`{name}` was removed: is {_short(filling)} right?")


def new_column(name: str, kind: str) -> Comment:
    """Ask for the value of a key's column that nothing old becomes."""
    return Comment(f"{_WORD} what is the `{name}` ({kind}) of an old key?")


def column_of_value(name: str) -> Comment:
    """Ask whether a key's column is the value's field of that name."""
    return Comment(f"{_WORD} is the new key's `{name}` that of the value?")


def column_changed(name: str, old: str, new: str) -> Comment:
    """Ask whether a key's column still means the same."""
    return Comment(f"{_WORD} `{name}` was {old} and becomes {new}: is it the same?")


def merged() -> Comment:
    """Ask what two values make."""
    return Comment(f"{_WORD} what do two values make, whose new keys are the same?")


def lost(name: str) -> Comment:
    """Ask whether a field that ``upgrade`` has no use for is meant to be lost."""
    return _comment(f"`{name}` goes nowhere: is it meant to be lost? Then add it to `drops`.")


def without_value(name: str, filling: Doc) -> Comment:
    """Ask what stands in for None."""
    return _comment(f"is {_short(filling)} right where `{name}` was None?")


def unconverted(name: str, new: Node, filling: Doc) -> Comment:
    """Ask how to convert a field that gets a fixed value so far."""
    return _comment(f"how is `{name}` made {_type(new)}, if not {_short(filling)}?")


def converted(name: str, new: Node, fits: bool) -> Comment:
    """Ask whether a conversion is the one that was meant; without ``fits``, also if it can fail."""
    if fits:
        return _comment(f"is `{name}` made {_type(new)} like this?")
    return _comment(f"can every `{name}` be made {_type(new)} like this?")


def narrowed(name: str, new: Node) -> Comment:
    """Ask whether values fit into a type that holds fewer."""
    return _comment(f"does every `{name}` fit into {_type(new)}?")


def _type(node: Node) -> str:
    return _cut(type_name(node), 30)


def _short(filling: Doc) -> str:
    # A dict or a list with something in it is more than a line can say.
    text = render(filling)
    return "this" if "\n" in text else _cut(text, 40)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _comment(question: str) -> Comment:
    return Comment(f"{_WORD} {question}", " Delete this line once it is right.")
