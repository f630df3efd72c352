"""The stores that a worker has open, each behind its dual access, whichever engine it is of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Literal, NoReturn

from statemigrate.access import Adopt, DualAccess
from statemigrate.budget import OnError
from statemigrate.deployment import Declared, StoredFamily, StorePlan, dual_access
from statemigrate.errors import TransformError
from statemigrate.families import Family, Source

Role = Literal["target", "source", "complement"]
"""What a family is to its store: values are written to the target, and come from sources."""


class OpenStores(ABC):
    """The dual access of each store that a worker has open.

    An engine opens the families, in `family`, and shows users their keys, in `shown`; the other
    methods that it may replace are the rules by which engines differ. With ``on_error`` as
    "quarantine" a value that does not migrate stays, and ``quarantined`` counts it.
    """

    asks_after_hit = True
    """Whether older families are asked for a key that the target has."""

    def __init__(self, *, write_on_read: bool, on_error: OnError = "raise") -> None:
        self.quarantined = 0
        self._write_on_read = write_on_read
        self._on_error = on_error
        self._open: dict[str, DualAccess[Any]] = {}

    @abstractmethod
    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> Family[Any]:
        """Open a family of a store."""

    @abstractmethod
    def shown(self, declared: Declared, key: Any) -> tuple[Any, ...]:
        """A key of a store by its columns."""

    def migrates_on_read(self, plan: StorePlan) -> bool:  # noqa: ARG002 - an engine may look at it
        """Whether reading a value of a store writes it to the target."""
        return self._write_on_read

    def refuse(self, plan: StorePlan, family: StoredFamily) -> NoReturn:
        """Raise the error for a value in a family that no path leads from."""
        plan.refuse(family)

    def adopts(self, plan: StorePlan) -> Adopt | None:  # noqa: ARG002
        """What writes a migrated value with the time that it has left; None where values stay."""
        return None

    @property
    def accesses(self) -> tuple[DualAccess[Any], ...]:
        """The dual access of each store."""
        return tuple(self._open.values())

    def open(self, declared: Declared) -> DualAccess[Any]:
        """The dual access of a declared variable."""
        return self._open[declared.store]

    def add(self, plan: StorePlan) -> DualAccess[Any]:
        """Open the families of a store, and their dual access."""
        target = self.family(plan, plan.target, "target")
        sources = [self.family(plan, each, "source") for each in plan.sources]
        complement = None
        if plan.complement is not None:
            complement = self.family(plan, plan.complement, "complement")
        access = dual_access(
            plan,
            target,
            sources,
            write_on_read=self.migrates_on_read(plan),
            asks_after_hit=self.asks_after_hit,
            show_key=partial(self.shown, plan.declared),
            refuse=partial(self.refuse, plan),
            adopt=self.adopts(plan),
            complement=complement,
        )
        self._open[plan.declared.store] = access
        return access

    def backfill(self, access: DualAccess[Any], source: Source[Any], key: Any, value: Any) -> None:
        """Migrate a value of an older family.

        Raises `TransformError` for one that does not migrate, unless it is to stay.
        """
        try:
            access.backfill(source, key, value)
        except TransformError:
            if self._on_error == "raise":
                raise
            self.quarantined += 1
