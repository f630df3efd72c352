"""What becomes of the states of an operator, where two versions of its code are compared.

There is no checkpoint: the states are those that a lock file has, or that code declares.
"""

from __future__ import annotations

from collections.abc import Iterator

from statemigrate.checkpoint.operators import has_envelopes, kind_of
from statemigrate.deployment import ENVELOPE, revision_in, store_of
from statemigrate.formats.struct import parse_ddl
from statemigrate.meaning.code_meaning import OperatorMeaning
from statemigrate.meaning.plan_items import (
    BEGINS_EMPTY,
    DELETED,
    PlanItem,
    deleted_families,
    short_text,
)
from statemigrate.meaning.spark_check import reads_struct
from statemigrate.migration import BASE
from statemigrate.rewrite import StateSchema

WITHOUT_FUNCTION = (
    "its values are in envelopes, and the code does not have one function that `migrated` wraps: "
    "put it around the function, with the store of the values"
)
"""Why code cannot go on with a function's values."""
_UNKNOWN_REVISION = (
    "its values are in envelopes, and nothing known of the old code says their revision: `plan` "
    "with the checkpoint reads it from them"
)
LIVES = "time-to-live"
"""The rule of values that live for another time."""


def compare_states(
    was: OperatorMeaning, now: OperatorMeaning, *, of_one_release: bool
) -> Iterator[PlanItem]:
    """What differs in what the operator keeps; nothing where one of the two was not looked at.

    Spark 4.3 declares nullable what earlier releases declare as NOT NULL, and goes on with both:
    so that counts only ``of_one_release``.
    """
    from statemigrate.native import pages_name

    if not (was.state and now.state):
        return
    is_live = kind_of(now.kind).has_variables
    names = [pages_name(each.state) for each in (was, now)]
    if is_live and names[0] != names[1]:
        one, other = map(described_pages, names)
        text = f"its state was in {one}, and is in {other}: the query does not start before a "
        text += "rewrite with --pages or --no-pages has moved it"
        yield PlanItem(f"{now.name} pages", "rewrite", text, now.name)
        return
    if _is_scripted(was) and _is_scripted(now):
        yield from _of_function(was, now)
        return
    if is_live:
        yield from _other_revisions(was, now)
    for name in [*now.state, *(each for each in was.state if each not in now.state)]:
        if is_live and _has_other_revisions(was, now, name):
            continue
        old, new = was.state.get(name), now.state.get(name)
        if old is None or new is None:
            yield _alone(name, now.name, is_new=old is None, is_live=is_live)
        else:
            yield from _changed(name, old, new, now, of_one_release=of_one_release)


def _is_scripted(operator: OperatorMeaning) -> bool:
    """Whether it is a function whose values are in envelopes, which scripts migrate."""
    if not kind_of(operator.kind).has_function:
        return False
    own = operator.state.get(operator.name)
    if own is not None:
        return _is_start(own) or has_envelopes(parse_ddl(own.value))
    # Of values in envelopes only their format is known, and of Spark's own rows the key as well.
    return all(each.key is None for each in operator.state.values())


def _is_start(own: StateSchema) -> bool:
    """Whether a start saw a function's envelopes. It sees no key, and no revision."""
    return own.value == ENVELOPE


def _of_function(was: OperatorMeaning, now: OperatorMeaning) -> Iterator[PlanItem]:
    """Of values in envelopes. Those that no script is known of are under the operator's name."""
    before, after = was.state.get(was.name), now.state.get(now.name)
    if any(own is not None and _is_start(own) for own in (before, after)):
        return
    if before is not None or after is not None:
        if before is None:
            yield PlanItem(now.name, "cannot", WITHOUT_FUNCTION, now.name)
        elif after is None:
            yield PlanItem(now.name, "unknown", _UNKNOWN_REVISION, now.name)
        return
    stores = [{*map(store_of, each.state)} for each in (was, now)]
    if stores[0] == stores[1]:
        yield from _other_revisions(was, now)
        return
    names = [", ".join(sorted(each)) for each in stores]
    text = f"its values were of store {names[0]}, and are of {names[1]}, whose scripts do not know "
    yield PlanItem(now.name, "cannot", text + "their revisions", now.name)


def described_pages(name: str | None, pages: int = 0) -> str:
    """Where a processor has its state, by its name on pages, and their number where it is known."""
    if name is None:
        return "variables of Spark's"
    number = f"{pages} pages" if pages > 1 else "1 page" if pages else "pages"
    return f"{number} named {name}" if name else number


def _other_revisions(was: OperatorMeaning, now: OperatorMeaning) -> Iterator[PlanItem]:
    """Stores that scripts have brought to another format."""
    for store in dict.fromkeys(map(store_of, now.state)):
        if not _has_other_revisions(was, now, store):
            continue
        lost = [name for name in was.state if store_of(name) == store and name not in now.state]
        if lost and not _is_migrated(now, store):
            yield deleted_families(store, lost, now.name)
        else:
            listed = [", ".join(_written(each, store)) for each in (was, now)]
            text = f"the state has revision {listed[0]}, and the code writes {listed[1]}"
            yield PlanItem(store, "live", text, now.name, store)


def _is_migrated(operator: OperatorMeaning, store: str) -> bool:
    """Whether scripts migrate a store. Of values in envelopes only the format is known."""
    own = {name: each for name, each in operator.state.items() if store_of(name) == store}
    has_families = any(revision_in(name) or each.key is None for name, each in own.items())
    return store in operator.targets or has_families


def _written(operator: OperatorMeaning, store: str) -> list[str]:
    """The revision that code writes to, or all that it has where that is not known."""
    target = operator.targets.get(store)
    if target is not None:
        return [revision_in(target) or BASE]
    return sorted(_revisions(operator, store))


def _has_other_revisions(was: OperatorMeaning, now: OperatorMeaning, name: str) -> bool:
    before, after = _revisions(was, name), _revisions(now, name)
    if not (before and after):
        return False
    written, target = (each.targets.get(store_of(name)) for each in (was, now))
    if written is not None and target is not None:
        return written != target
    return before != after and target not in was.state


def _revisions(operator: OperatorMeaning, name: str) -> set[str]:
    """The revisions in which the store of a variable is kept; none where there is no such store."""
    return {
        revision_in(each) or BASE for each in operator.state if store_of(each) == store_of(name)
    }


def _alone(name: str, operator: str, *, is_new: bool, is_live: bool) -> PlanItem:
    """Of a state that one version alone has."""
    if not is_live:
        which = "the new code alone" if is_new else "the old code alone"
        return PlanItem(name, "rewrite", f"{which} keeps it: Spark does not start", operator)
    if is_new:
        return PlanItem(name, "goes on", BEGINS_EMPTY, operator, name)
    return PlanItem(name, "unnoticed", DELETED, operator, name, "variable")


def _changed(
    name: str,
    old: StateSchema,
    new: StateSchema,
    operator: OperatorMeaning,
    *,
    of_one_release: bool,
) -> Iterator[PlanItem]:
    """Of a state that both have."""
    kind = kind_of(operator.kind)
    store = name if kind.has_variables else ""
    if old.kind != new.kind:
        text = f"it was a {old.kind}, and is a {new.kind}: Spark does not start"
        yield PlanItem(name, "rewrite", text, operator.name)
        return
    others: list[str] = []
    # A start sees what the code declares, and a probe what Spark has made of it.
    nullable = of_one_release and (old.key is None) == (new.key is None)
    pairs = [(old.key, new.key), (old.user_key, new.user_key), (old.value, new.value)]
    for one, other in pairs:
        if one is None or other is None:
            continue
        read = reads_struct(parse_ddl(one), parse_ddl(other), nullable=nullable)
        if read.refused:
            is_live = kind.has_variables and (one, other) == pairs[-1]
            text = f"it kept {short_text(one)}, and keeps {short_text(other)}: {read.refused}"
            yield PlanItem(name, "live" if is_live else "rewrite", text, operator.name, store)
            return
        others += [f"{each[0]} is read as {each[1]}" for each in read.as_other]
    if old.expires != new.expires:
        text = "values have a time to live in one version alone: Spark does not start"
        yield PlanItem(name, "live", text, operator.name, store)
    elif others and kind.is_of_user_code:
        # What other operators keep is compared by what it is computed from.
        text = f"Spark compares types alone, and starts: {', '.join(others)}"
        yield PlanItem(name, "unnoticed", text, operator.name, store, "variable")
    elif old.lives != new.lives and None not in (old.lives, new.lives):
        text = f"new values live {new.lives} ms, and older ones {old.lives} ms as before"
        yield PlanItem(name, "goes on", text, operator.name, store, LIVES)
