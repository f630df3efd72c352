"""What is asked where windows in the state are, or may be, others than the new code makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from statemigrate.rewrite.plan.asking.questions import Question
from statemigrate.rewrite.windows.findings import WindowFinding
from statemigrate.rewrite.windows.kinds import (
    SessionWindow,
    TimeWindow,
    duration,
    timestamp_text,
)
from statemigrate.rewrite.windows.meanings import ChangedKey

_LACK = "Those of the new code begin without the rows that came before: is the state to stay so?"
_LONGEST = 300
_Asked = tuple[str, str]
"""What is asked, and what is proposed."""


def window_questions(
    findings: Iterable[WindowFinding], *, of_tables: bool = False
) -> list[Question]:
    """One of each finding that speaks against the state as it is.

    That ``of_tables`` has no old code that it could begin without.
    """
    found = [_question(each) for each in findings]
    asked = [each for each in found if each is not None]
    return [replace(each, otherwise=()) for each in asked] if of_tables else asked


def key_questions(changed: Iterable[ChangedKey]) -> list[Question]:
    """One of each key column that is computed from something else."""
    return [
        Question(
            each.name,
            "window",
            f"{each.store}.{each.column}: the old code computed this key as {_short(each.old)}, "
            f"and the new code as {_short(each.new)}. Rows keep their keys, and are not found "
            "where the new code gives others: are they to stay so?",
            "they stay",
            (f"a script of {each.store} with new_key and rekey",),
        )
        for each in changed
    ]


def _short(expression: str) -> str:
    return expression if len(expression) <= _LONGEST else f"{expression[:_LONGEST]}..."


def _question(finding: WindowFinding) -> Question | None:
    if finding.verdict == "same":
        return None
    if finding.is_scripted:
        return _of_merged(finding)
    text, proposal = _asked(finding)
    script = (f"a script of {finding.store} with rekey and merge",) if _can_merge(finding) else ()
    return Question(
        finding.name,
        "window",
        f"{finding.store}.{finding.column}: {text}",
        proposal,
        (*script, f"--operator {finding.operator}=gone"),
        facts=_facts(finding),
    )


def _can_merge(finding: WindowFinding) -> bool:
    """Whether each window of the state is as long as others of the new code, or shorter."""
    new = finding.new
    return (
        isinstance(new, TimeWindow)
        and new.is_tumbling
        and all(new.length % each == 0 for each in finding.lengths)
        and bool(finding.lengths)
    )


def _asked(finding: WindowFinding) -> _Asked:
    if finding.verdict == "changed" and finding.old is not None:
        return (
            f"the old code made {finding.old.text}, and the new code makes {finding.new_text}. "
            "What is in the state stays as it is, and no row goes into what the new code does not "
            f"make. {_LACK}",
            "it stays",
        )
    if finding.verdict == "unseen":
        return (
            "nothing is in the state, so what the old code made there is not known, and the new "
            f"code makes {finding.new_text}. If the old code made others, what is open now lacks "
            "what came before: did it make the same?",
            "the same",
        )
    return _of_sessions(finding) if finding.is_session else _of_windows(finding)


def _of_windows(finding: WindowFinding) -> _Asked:
    old, new = finding.old_text, finding.new_text
    if finding.verdict == "unknown":
        return (
            f"the state has {old}, and whether the new code makes just these cannot be seen: does "
            "it?",
            "the same",
        )
    if finding.verdict == "missing":
        return (
            f"the state has {old}, without others that {new} come with, so the old code made other "
            f"windows. {_LACK}",
            "it stays",
        )
    length = finding.new.length if isinstance(finding.new, TimeWindow) else None
    which = ", at other times" if finding.lengths == (length,) else ""
    return (
        f"the state has {old}{which}, and the new code makes {new}. Old windows stay as they are, "
        f"no new row goes into them, and they are given out so. {_LACK}",
        "it stays",
    )


def _of_sessions(finding: WindowFinding) -> _Asked:
    gap = finding.new.gap if isinstance(finding.new, SessionWindow) else None
    if gap is None:
        return (
            f"the state has sessions, and the new code makes {finding.new_text}: no session says "
            "with which gap it was made. Was it that of the new code?",
            "the same",
        )
    if finding.verdict == "unknown":
        return (
            f"every session in the state is longer than {duration(gap)}, the gap of the new code, "
            "so they may have been made with another one. Was it the same?",
            "the same",
        )
    return (
        f"there are sessions in the state that are shorter than {duration(gap)}, the gap of the "
        "new code, so they were made with a shorter one. They keep their ends: what the new gap "
        "brings into one session stays in two. Is the state to stay so?",
        "it stays",
    )


def _of_merged(finding: WindowFinding) -> Question | None:
    """Of windows that a script makes of shorter ones, whether one may lack parts."""
    if finding.right_from is None:
        return None
    return Question(
        finding.name,
        "window",
        f"{finding.store}.{finding.column}: a script makes {finding.new_text} of "
        f"{finding.old_text}. Parts that the watermark has passed may be given out and gone, and "
        "the window that is open now lacks them: is it to stay so?",
        "it stays",
        facts=_facts(finding),
    )


def _facts(finding: WindowFinding) -> str:
    found = []
    if finding.other_rows and not finding.is_scripted:
        which = "sessions" if finding.is_session else "windows"
        which += " that the new code does not make"
        found.append(f"{finding.other_rows:,} of {finding.rows:,} rows are in {which}")
    if finding.right_from is not None:
        found.append(f"what begins at {timestamp_text(finding.right_from)} or later is right")
    return "; ".join(found)
