"""`status --failed`: values that a backfill has left behind because their transform fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.errors import TransformError, ValueMismatchError
from statemigrate.inspect import TrialPath, cause_of, courses
from statemigrate.state import Project, open_committed, planned, require_store

if TYPE_CHECKING:
    from statemigrate.native import Spark


_NO_WAY = "no way leads from its family to the target's"


@dataclass(frozen=True)
class FailedValue:
    """A key, its value in an older family, and the reason why that does not migrate.

    ``cause`` is None if the current scripts can migrate it: the next start does.
    """

    family: str
    key: tuple[Any, ...]
    value: Any
    cause: str | None


def quarantine(
    store: str,
    checkpoint: str | Path,
    *,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    accept_edited: Sequence[str] = (),
    operator: int | str | None = None,
    spark: Spark = None,
) -> Iterator[FailedValue]:
    """Every failed value of ``store``, tried with the current scripts.

    On the embedded engine these are the values that a backfill has marked. Spark's own state has no
    marks: there they are all values in older families that do not migrate. ``accept_edited`` names
    scripts that were edited after they were applied. Raises the errors of `dry_run`.
    """
    project = Project(migrations, targets or {}, {}, spark, operator, tuple(accept_edited))
    lineages = project.folder.sound_lineages(store)
    require_store(str(checkpoint), store)
    with closing(open_committed(checkpoint, lineages, project)) as state:
        plan = planned(state, store, lineages, project)
        by_family = {trial_path.family.name: trial_path for trial_path in courses(plan)}
        for family, key, value, marked in state.suspects(plan):
            cause = _cause(by_family[family], value) if family in by_family else _NO_WAY
            if marked or cause is not None:
                yield FailedValue(family, key, value, cause)


def _cause(trial_path: TrialPath, value: Any) -> str | None:
    elements = value if isinstance(value, list) else [value]
    try:
        for each in elements:
            # A transform may change what it is given, and the original is shown.
            fresh = trial_path.family.format.decode(trial_path.family.format.encode(each))
            trial_path.target.format.validate(trial_path.path.apply(fresh))
    except (TransformError, ValueMismatchError) as error:
        return f"{cause_of(error)}; {error.found}"
    return None
