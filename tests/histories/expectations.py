"""What may come of a life: a life without an oddity has no excuse, any other may be refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from formats import family
from history import History, Life

_NAMED = re.compile(r"statemigrate\.errors\.(\w+)")
_WRONG = {"TransformError", "ValueMismatchError"}
NO_SCRIPTS = "another format of a store without scripts"
"""Such a store is the user's own: `migrated` leaves it to Spark, which refuses another format."""
_ANOTHER_FORMAT = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"


@dataclass
class Ledger:
    """What was done to the checkpoint so far, as far as it excuses a refusal later.

    ``is_tainted`` after code that could not know of them has forgotten values; ``is_rerun`` where
    the last run that committed anything began with a batch that another had begun. ``targets`` are
    the families that the last migrated code to commit a batch has written to. ``may_be_plain``
    where a command has read the state since, and said that plain code may start.
    """

    newest: dict[str, int] = field(default_factory=dict)
    variants: dict[str, set[bool]] = field(default_factory=dict)
    excuses: set[str] = field(default_factory=set)
    is_tainted: bool = False
    is_rerun: bool = False
    targets: frozenset[str] = frozenset()
    may_be_plain: bool = False

    @property
    def is_migrated(self) -> bool:
        """Whether any code ever was written for another format than the first."""
        return any(self.newest.values())

    def started(self, life: Life) -> None:
        """A life began to run batches, whether or not one was committed."""
        for store, revision in life.revisions.items():
            if life.code == "migrated":
                self.newest[store] = max(revision, self.newest.get(store, 0))
                self.variants.setdefault(store, set()).add(store in life.edited)

    def committed(self, life: Life, *, is_rerun: bool = False) -> None:
        """A life committed a batch; its first one had been begun by another with ``is_rerun``."""
        self.is_rerun = is_rerun
        if life.code == "migrated":
            self.may_be_plain = False
            at = {store: revision for store, revision in life.revisions.items() if revision}
            self.targets = frozenset(family(s, at[s]) for s in at if life.scripts[s])


def oddities(history: History, life: Life, ledger: Ledger, sources: int | None) -> set[str]:
    """Why the life may be refused; ``sources`` is how many the offset log has, None for any."""
    found = set(ledger.excuses)
    wanted = history.inputs + life.backfill
    if sources is not None and sources != wanted:
        found.add("sources")
    if life.code == "plain":
        return found | set(_plain(life, ledger))
    found.update(_wrapped(life))
    if must_be_refused(life, ledger):
        found.add("forgotten values")
    for store in history.types:
        found.update(_scripts(history, life, ledger, store))
    return found


def must_be_refused(life: Life, ledger: Ledger) -> bool:
    """Whether values were forgotten, and the code looks at the checkpoint where that shows."""
    return ledger.is_tainted and life.code == "migrated" and life.checkpoint == "right"


def may_forget(life: Life, excuses: set[str]) -> bool:
    """Whether nothing hinders the code from running on families that it does not declare."""
    if life.code == "plain":
        return bool(excuses)
    return life.checkpoint == "none" and "scripts gone" in excuses


def declared(life: Life) -> set[str]:
    """The variables that the life's code declares where it has not looked at the checkpoint."""
    if life.code == "plain":
        return set(life.revisions)
    return {family(s, at) for s, steps in life.scripts.items() for at in range(steps + 1)}


def _plain(life: Life, ledger: Ledger) -> Iterable[str]:
    if ledger.is_migrated:
        yield "plain code after another format"
    if any(life.revisions.values()):
        yield "plain code in another format"


def _wrapped(life: Life) -> Iterable[str]:
    if life.checkpoint in ("typo", "other"):
        yield "wrong checkpoint"
    if life.early:
        yield "made early"


def _scripts(history: History, life: Life, ledger: Ledger, store: str) -> Iterable[str]:
    scripts, revision = life.scripts[store], life.revisions[store]
    newest = ledger.newest.get(store, 0)
    if scripts < revision or (life.targets == "head" and scripts != revision):
        yield "code and scripts differ"
    if scripts == 0 < revision:
        yield NO_SCRIPTS
    if scripts < newest:
        yield "scripts gone"
    if ledger.variants.get(store, set()) - {store in life.edited}:
        yield "edited"
    if any(revision < step <= newest for step in history.one_way.get(store, [])):
        yield "no way back"


def is_by_spark(text: str, life: Life, excuses: set[str]) -> bool:
    """Whether it was for Spark to refuse the life, and that is what it says."""
    if NO_SCRIPTS in excuses and _ANOTHER_FORMAT in text:
        return True
    if "lose control log" in excuses and "doesn't exist" in text:
        return True
    is_its = life.code == "plain" or bool(excuses & {"sources", "copy"})
    return is_its and "AssertionError" not in text


def refusals(text: str) -> set[str]:
    """The names of statemigrate's errors that excuse a life."""
    names = set(_NAMED.findall(text))
    return set() if names & _WRONG else names
