"""Opening a checkpoint together with the scripts of its stores, whatever is wrong with those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statemigrate.deployment import StoredStore
from statemigrate.migration import Lineage
from statemigrate.scripts.folder import survey_of
from statemigrate.state.opening import open_state, require_scripted
from statemigrate.state.protocol import State, told_stores

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark
    from statemigrate.scripts.survey import Survey


@dataclass(frozen=True)
class Scripts:
    """What a folder has for the stores of a checkpoint; ``survey`` is None for no folder.

    A store whose scripts are broken is read all the same: ``targets`` are of those that are sound.
    """

    survey: Survey | None
    targets: Mapping[str, str]

    @classmethod
    def of(cls, migrations: str | Path | None, targets: Mapping[str, str] | None) -> Scripts:
        """Read a folder. Raises `LineageError` for a target of a store that has no scripts."""
        found, targets = survey_of(migrations), targets or {}
        if found is None:
            return cls(None, {})
        require_scripted(targets, found.stores)
        return cls(found, {store: at for store, at in targets.items() if store in found.lineages})

    @property
    def lineages(self) -> Mapping[str, Lineage]:
        """Those of the stores in whose scripts nothing is wrong."""
        return self.survey.lineages if self.survey else {}

    @property
    def stores(self) -> list[str]:
        """The stores that any script names."""
        return self.survey.stores if self.survey else []

    def told(self, state: State) -> Mapping[str, StoredStore]:
        """The stores of a state that are told of, by name."""
        return told_stores(state, self.stores)

    def is_broken(self, store: str) -> bool:
        """Whether something is wrong with its scripts, or with one that may be of any store."""
        if self.survey is None:
            return False
        if any(fault.store is None for fault in self.survey.found_faults):
            return True
        return store in self.stores and store not in self.lineages

    @contextmanager
    def opened(
        self,
        checkpoint: str | Path,
        *,
        operator: int | str | None,
        stores: Mapping[str, str] | None,
        spark: Spark,
    ) -> Iterator[State]:
        """The state of a checkpoint, as `open_state` opens it."""
        with closing(
            open_state(
                str(checkpoint),
                dict(self.lineages),
                targets=self.targets,
                operator=operator,
                stores=stores,
                spark=spark,
            )
        ) as state:
            yield state
