"""Names that somebody chose who wants them to be more than names."""

from pathlib import Path

from hypothesis import strategies as st

CANARY = "a-name-was-run"
"""The file that a name makes in the working directory, where it is run as Python or by a shell."""
_PYTHON = f'__import__("pathlib").Path("{CANARY}").touch()'
_SHELL = f"touch {CANARY}"
PAYLOADS = (
    f'n""" + str({_PYTHON}) + """',
    f"n''' + str({_PYTHON}) + '''",
    f'n" + str({_PYTHON}) + "',
    f'n")\n{_PYTHON}\nStruct("',
    f"x\n{_PYTHON}",
    f"x\r{_PYTHON}",
    f"x\x0c\n{_PYTHON}\n",
    f"x(value): return {_PYTHON}\ndef y",
    f'x\\"""\n{_PYTHON}\n"""',
    f"${{{_PYTHON}}}",
    f"<% {_PYTHON} %>",
    f"\n% if {_PYTHON}:\n% endif\n",
    f"\n## {_PYTHON}\n<%doc>",
    f"{{value.__class__}}{{0!r}}{{{_PYTHON}}}",
    f"$({_SHELL})",
    f"`{_SHELL}`",
    f"'; {_SHELL}; '",
    f'"; {_SHELL}; "',
    f"x\n{_SHELL}\n",
    f"a && {_SHELL} #",
    f"\\'; {_SHELL} #",
    "-rf",
    "--config=x",
    "[red]x[/red][link=http://x]y[/link][/]",
    ":skull: [bold",
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\y",
    "\x9b31mred",
    "</title><script>alert(1)</script>",
    '"><img src=x onerror="alert(1)">',
    "' onmouseover='alert(1)",
    "]]><x/><![CDATA[",
    "<!--", "&lt;b&gt;&amp;&#0;&#x1b;",
    "| a | b |\n|---|---|",
    "[a](javascript:alert(1))",
    "x`; DROP TABLE t; --",
    "a.b.c", "a``b", "`",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\N{POP DIRECTIONAL FORMATTING}",
    "\N{RIGHT-TO-LEFT ISOLATE}x\N{FIRST STRONG ISOLATE}",
    "a\N{ZERO WIDTH SPACE}b\N{SOFT HYPHEN}",
    "x\x85y", "x\u2028y", "x\u2029y", "\x00", "\x1c\x1d\x1e", "\ufeff", "\ufffe", "\U000e0041",
    "../../outside", "/etc/passwd", "C:\\x", "con", "~",
    "import", "value", "key", "class", "None", "__class__", "__import__", "date", "str",
    "gr\u00f6\u00dfe", "\ufb01", "fi", "\u0130", "\u00b2", "\u503c", "\U0001f600",
    "n" * 500,
)  # fmt: skip
"""Each is code, markup or a command for somebody who does not write it as a text."""

_CHARACTERS = st.characters(codec="utf-8") | st.sampled_from(
    "\"'\\`$%#{}<>&;|*?~!()[]\n\r\t\0\x0b\x0c\x1b\x85\u2028\u2029\u202e\u2066\u200f"
)


def names() -> st.SearchStrategy[str]:
    """Names that a checkpoint may have: payloads, alone and in other texts, and any characters."""
    payload = st.sampled_from(PAYLOADS)
    text = st.text(_CHARACTERS, min_size=1, max_size=20)
    return payload | text | st.builds("".join, st.lists(payload | text, min_size=2, max_size=3))


def nothing_was_run(folder: Path) -> bool:
    """Whether no payload was run, wherever a command was started below ``folder``."""
    return not Path(CANARY).exists() and not list(folder.rglob(CANARY))
