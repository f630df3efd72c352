"""What a stopped query of the embedded engine would do with each of its stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from statemigrate.deployment import StorePlan
from statemigrate.embedded.storage.layout import Layout
from statemigrate.scripts import ScriptFolder
from statemigrate.state.embedded import EmbeddedState
from statemigrate.state.opening import require_scripted
from statemigrate.state.protocol import planned


def offline_plans(
    layout: Layout,
    migrations: str | Path,
    targets: Mapping[str, str],
    accept_edited: Sequence[str] = (),
) -> dict[str, StorePlan]:
    """By store, how code written for the targets would access it.

    Raises `LineageError` for a target of a store without scripts.
    """
    lineages = ScriptFolder(migrations).lineages()
    require_scripted(targets, lineages)
    with closing(EmbeddedState(layout.files.location)) as state:
        return {
            store: planned(state, store, lineages, targets, accept_edited) for store in state.stores
        }
