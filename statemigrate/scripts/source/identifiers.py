"""The one writer of names of functions and variables in generated scripts."""

from __future__ import annotations

from unicodedata import normalize


def identifier(text: str) -> str:
    """Return what, behind a letter or an underscore, is part of a name in Python.

    It is in small letters, and as Python itself takes it: two texts that differ only in what
    Python makes the same are the same here.
    """
    whole = normalize("NFKC", text.lower())
    kept = "".join(each if f"_{each}".isidentifier() else "_" for each in whole)
    return normalize("NFKC", kept)
