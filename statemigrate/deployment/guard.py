"""A family that no way leads from: what is in it must not be touched, nor passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from statemigrate.errors import StartupError
from statemigrate.families import Family, Key, Span
from statemigrate.migration import Lineage


class GuardedFamily:
    """A family no way leads from: as long as it is empty it is as if it were not there.

    ``refuse`` raises the error for a key that has a value in it.
    """

    def __init__(self, family: Family[Any], refuse: Callable[[], NoReturn]) -> None:
        self.name = family.name
        self.revision = family.revision
        self._family = family
        self._refuse = refuse

    def get(self, key: Key) -> None:
        """See `statemigrate.families.Family.get`."""
        self.contains(key)

    def contains(self, key: Key) -> bool:
        """See `statemigrate.families.Family.contains`."""
        if self._family.contains(key):
            self._refuse()
        return False

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self._family.conform(value)

    def put(self, key: Key, value: Any) -> NoReturn:  # noqa: ARG002
        """Never: dual access writes only to the target."""
        self._refuse()

    def delete(self, key: Key) -> None:
        """See `statemigrate.families.Family.delete`."""
        self.contains(key)

    def scan(self, span: Span) -> Iterator[tuple[Key, Any]]:
        """See `statemigrate.families.Family.scan`."""
        if next(self._family.scan(span), None) is not None:
            self._refuse()
        return iter(())

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`."""
        return self._family.is_drained()


def no_way(
    lineage: Lineage, revision: str, target: str, *, held: str, at: str = ""
) -> StartupError:
    """The error for values of ``revision`` that cannot become ``target``'s.

    ``held`` says where there is such a value; ``at`` names the key, if it was one that showed it.
    """
    missing = lineage.missing_downgrade(revision, target)
    where = revision if missing is None else missing.where
    return StartupError(
        "SM-START-009",
        f"store {lineage.store}{at and ', key ' + at}"
        f"{':' if at else ''} cannot go back from {revision} to {target}",
        expected=f"a downgrade in {where}, since {held}",
        found="no downgrade",
        next_action="write that downgrade, or deploy code whose target is "
        f"{revision}; {'nothing of this batch was written' if at else 'nothing was touched'}",
        store=lineage.store,
        revision=revision if missing is None or at else missing.revision,
    )
