"""The stores of a processor over the page that is visited, each behind its dual access."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from statemigrate.access import DualAccess
from statemigrate.deployment import Declared, Settings, StorePlan, dual_access, is_family_of
from statemigrate.errors import PageError, TransformError
from statemigrate.pages.live.families import PageFamily, family_class
from statemigrate.pages.live.quarantine import PageQuarantine
from statemigrate.pages.page.page import Page
from statemigrate.processor.keys.codec import KeyCodec, shown_key
from statemigrate.sources import Source

_log = logging.getLogger("statemigrate.pages")


class PageStores:
    """The dual access of every store of the plans, over one page after the other.

    ``quarantined`` counts the values that a page's migration left where they were, under
    ``on_error="quarantine"``: each once for the start that is called ``deployment``.
    """

    def __init__(
        self,
        plans: Mapping[str, StorePlan],
        settings: Settings,
        keys: KeyCodec,
        deployment: str,
    ) -> None:
        self.quarantined = 0
        self._quarantine = PageQuarantine(deployment)
        self._settings = settings
        self._keys = keys
        self._families: list[PageFamily] = []
        self._expiring: list[PageFamily] = []
        self._open = {store: self._access(plan) for store, plan in plans.items()}
        self._known = frozenset(family.name for family in self._families)
        # Here a migrated value keeps its time: no script has to say whether it may migrate.
        self._migrating = tuple(self._open.values())

    @property
    def accesses(self) -> tuple[DualAccess[Any], ...]:
        """The dual access of each store."""
        return tuple(self._open.values())

    def open(self, declared: Declared) -> DualAccess[Any]:
        """The dual access of a declared variable."""
        return self._open[declared.store]

    def turn(self, page: Page, now: int) -> None:
        """Go on with another page, at the time ``now`` of the batch.

        Raises `PageError` for one with families that nobody knows.
        """
        self._check_known(page)
        self._page = page
        self._quarantine.turn(page)
        for family in self._families:
            family.turn(page, now)
        for access in self._open.values():
            access.resume()

    def migrate(self, *, asked: bool = False) -> None:
        """Migrate all that the page has in an older family: whoever touches it, moves it whole.

        Where reads are not to migrate, only if it is ``asked`` for by a backfill. An entry that
        does not migrate stays as it was, and its neighbours go on: it fails when it is touched
        itself, or asked for where the user wants to know, which raises `TransformError`.
        """
        if not (asked or self._settings.write_on_read):
            return
        for access in self._migrating:
            for source in access.sources:
                self._migrate_all(access, source, asked=asked)

    def _migrate_all(self, access: DualAccess[Any], source: Source[Any], *, asked: bool) -> None:
        family = source.family
        assert isinstance(family, PageFamily), family.name  # noqa: S101
        raises = self._settings.on_error == "raise"
        for key, value in family.scan_but(self._passed_over(family, asked and raises)):
            try:
                access.backfill(source, key, value)
            except TransformError as error:
                if asked and raises:
                    raise
                self._leave(family, key, error)

    def _passed_over(self, family: PageFamily, every: bool) -> Callable[[bytes], bool] | None:
        """What tells of a key that this start has tried; None where all are to be tried."""
        if every or not self._quarantine.has_marks:
            return None
        return partial(self._quarantine.is_marked, family.name)

    def _leave(self, family: PageFamily, key: bytes, error: TransformError) -> None:
        self._quarantine.mark(family.name, key)
        self.quarantined += self._settings.on_error == "quarantine"
        _log.warning("a value stays in %s, since it does not migrate: %s", family.name, error)

    def forget_marks(self) -> None:
        """Remove the marks of entries that are not in an older family any more."""
        self._quarantine.keep(self._is_left)

    def _is_left(self, name: str, key: bytes) -> bool:
        if name in self._known:
            return any(
                source.family.contains(key)
                for access in self.accesses
                for source in access.sources
                if source.family.name == name
            )
        # Of a store that this code does not have, whose entries nobody moves.
        return self._page.holds(name)

    def drop_expired(self) -> None:
        """Remove what has expired of the page, whoever was asked for anything."""
        for family in self._expiring:
            family.drop_expired()

    def _access(self, plan: StorePlan) -> DualAccess[Any]:
        make, life = family_class(plan.declared.kind), plan.declared.ttl or None
        opened = [make(each, life) for each in (plan.target, *plan.sources)]
        self._families += opened
        self._expiring += opened if life else []
        target, *sources = opened
        user_key = plan.declared.user_key
        user_keys = None if user_key is None else KeyCodec(user_key)
        return dual_access(
            plan,
            target,
            sources,
            write_on_read=self._settings.write_on_read,
            show_key=partial(shown_key, self._keys, user_keys),
            adopt=make.adopt if life else None,
        )

    def _check_known(self, page: Page) -> None:
        for name in page.families - self._known:
            for store in self._open:
                if is_family_of(store, name):
                    raise _unknown(store, name, self._known)


def _unknown(store: str, name: str, known: frozenset[str]) -> PageError:
    return PageError(
        "SM-PAGES-009",
        f"a page of state has the family {name}, which was not there when the query was checked",
        expected=f"one of {', '.join(sorted(known))}",
        found=name,
        next_action="restart the query, which compares code, scripts and pages again; if this is "
        "said again, bring back the scripts that the checkpoint was last run with",
        store=store,
        family=name,
    )
