"""The stores of a processor over the page that is visited, each behind its dual access."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from statemigrate.access import DualAccess, Source
from statemigrate.deployment import Declared, Settings, StorePlan, dual_access, is_family_of
from statemigrate.errors import PageError, TransformError
from statemigrate.families import Span
from statemigrate.pages.families import PageFamily, family_class
from statemigrate.pages.page.page import Page
from statemigrate.processor.keys import KeyCodec, shown_key


class PageStores:
    """The dual access of every store of the plans, over one page after the other.

    ``quarantined`` counts the values that a page's migration left where they were, under
    ``on_error="quarantine"``.
    """

    def __init__(self, plans: Mapping[str, StorePlan], settings: Settings, keys: KeyCodec) -> None:
        self.quarantined = 0
        self._settings = settings
        self._keys = keys
        self._families: list[PageFamily] = []
        self._open = {store: self._access(plan) for store, plan in plans.items()}
        self._known = frozenset(family.name for family in self._families)
        self._migrating = [
            self._open[store] for store, plan in plans.items() if plan.migrates_unasked
        ]

    @property
    def accesses(self) -> tuple[DualAccess[Any], ...]:
        """The dual access of each store."""
        return tuple(self._open.values())

    def open(self, declared: Declared) -> DualAccess[Any]:
        """The dual access of a declared variable."""
        return self._open[declared.store]

    def turn(self, page: Page) -> None:
        """Go on with another page. Raises `PageError` for one with families that nobody knows."""
        self._check_known(page)
        for family in self._families:
            family.turn(page)
        for access in self._open.values():
            access.resume()

    def migrate(self, *, asked: bool = False) -> None:
        """Migrate all that the page has in an older family: whoever touches it, moves it whole.

        Where reads are not to migrate, only if it is ``asked`` for by a backfill.
        """
        if not (asked or self._settings.write_on_read):
            return
        for access in self._migrating:
            for source in access.sources:
                for key, value in source.family.scan(Span()):
                    self._backfill(access, source, key, value)

    def _backfill(
        self, access: DualAccess[Any], source: Source[Any], key: bytes, value: Any
    ) -> None:
        try:
            access.backfill(source, key, value)
        except TransformError:
            if self._settings.on_error == "raise":
                raise
            self.quarantined += 1

    def _access(self, plan: StorePlan) -> DualAccess[Any]:
        make = family_class(plan.declared.kind)
        target, *sources = (make(each) for each in (plan.target, *plan.sources))
        self._families += [target, *sources]
        user_key = plan.declared.user_key
        user_keys = None if user_key is None else KeyCodec(user_key)
        return dual_access(
            plan,
            target,
            sources,
            write_on_read=self._settings.write_on_read,
            show_key=partial(shown_key, self._keys, user_keys),
        )

    def _check_known(self, page: Page) -> None:
        for name in page.families - self._known:
            for store in self._open:
                if is_family_of(store, name):
                    raise _unknown(store, name, self._known)


def _unknown(store: str, name: str, known: frozenset[str]) -> PageError:
    return PageError(
        f"a page of state has the family {name}, which was not there when the query was checked",
        expected=f"one of {', '.join(sorted(known))}",
        found=name,
        next_action="restart the query, which compares code, scripts and pages again; if this is "
        "said again, bring back the scripts that the checkpoint was last run with",
        store=store,
        family=name,
    )
