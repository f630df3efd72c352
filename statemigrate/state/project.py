"""What the commands share: which scripts, up to which revisions, and how state is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.configuration import DEFAULT, names_scripts

if TYPE_CHECKING:
    from statemigrate.configuration import NamedCheckpoint
    from statemigrate.migration import Lineage
    from statemigrate.native import Spark
    from statemigrate.scripts import ScriptFolder, Survey


@dataclass(frozen=True)
class Project:
    """The settings that go through every command, in one object.

    ``migrations`` is the folder of scripts, None for a query that has none. ``targets`` names, by
    store, the revision to migrate to, the head where it names none. ``stores`` has the names that
    operators' stores get. Spark's own state is read with ``spark``: a session, a function that
    makes one, or None for the active one. ``operator`` is the number or name of the stateful
    operator, where a query has several. ``accept_edited`` names applied scripts that were corrected
    since.
    """

    migrations: str | Path | None = DEFAULT
    targets: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    spark: Spark = None
    operator: int | str | None = None
    accept_edited: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Where the scripts are, whether or not there is such a folder."""
        return Path(DEFAULT if self.migrations is None else self.migrations)

    @property
    def folder(self) -> ScriptFolder:
        """The folder of scripts. Raises `ScriptError` where there is none."""
        from statemigrate.scripts import ScriptFolder

        return ScriptFolder(self.directory)

    @cached_property
    def survey(self) -> Survey | None:
        """All scripts, read once; None where no folder was named and the default is not there."""
        if not names_scripts(self.migrations):
            return None
        # Loaded where there are some: a look at state without any is to begin at once.
        from statemigrate.scripts import survey_of

        return survey_of(self.migrations)

    @property
    def lineages(self) -> Mapping[str, Lineage]:
        """The sound chains of scripts, by store; empty without scripts."""
        return {} if self.survey is None else self.survey.lineages

    def store_names(self, name: str) -> tuple[str, ...]:
        """The names of a store: the one in this project, and the engine's own."""
        return (name, self.stores[name]) if name in self.stores else (name,)

    @property
    def keywords(self) -> dict[str, Any]:
        """The settings by their names, as the public functions take them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def at(self, named: NamedCheckpoint) -> Project:
        """The same for a checkpoint that may have targets and an operator of its own."""
        return replace(self, targets=named.targets_over(self.targets), operator=named.operator)
