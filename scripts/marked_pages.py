"""The parts of documents that scripts write, each between two marks."""

from __future__ import annotations


def with_part(page: str, name: str, script: str, text: str) -> str:
    """The page with ``text`` between the marks of the part ``name``, which ``script`` writes."""
    begin, end = f"<!-- {name}: made by scripts/{script} -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"no marks of {name} for {script}")
    return f"{before}{begin}{text}\n{end}{after}"
