"""Versioned migrations for the live state of Spark Structured Streaming queries.

The public names. Each is imported when it is first used, so that ``import statemigrate`` loads
neither Spark nor RocksDB nor alembic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemigrate.budget import BackfillOptions
    from statemigrate.commands.status import Status, status
    from statemigrate.embedded.engine.query import EmbeddedQuery
    from statemigrate.embedded.engine.running import RunningQuery
    from statemigrate.embedded.options import EmbeddedOptions
    from statemigrate.embedded.progress import BatchProgress
    from statemigrate.errors import StatemigrateError
    from statemigrate.formats import Avro, Format, Struct
    from statemigrate.inspect.report.dry_run import DryRunReport
    from statemigrate.inspect.trial.run import dry_run
    from statemigrate.metrics.batches import EmbeddedMetrics
    from statemigrate.metrics.listener import NativeMetrics
    from statemigrate.native.backfill.plan import BackfillPlan, pause_backfill, plan_backfill
    from statemigrate.native.backfill.progress import (
        BackfillListener,
        BackfillStatus,
        backfill_status,
    )
    from statemigrate.native.backfill.source import with_backfill
    from statemigrate.native.decorator import migrated
    from statemigrate.native.live.deployed import migration_counts
    from statemigrate.native.live.envelope import ENVELOPE
    from statemigrate.scripts import ScriptFolder
    from statemigrate.state.reader import StateReader

_HOMES = {
    "Avro": "statemigrate.formats",
    "BackfillOptions": "statemigrate.budget",
    "BackfillPlan": "statemigrate.native.backfill.plan",
    "BackfillListener": "statemigrate.native.backfill.progress",
    "BackfillStatus": "statemigrate.native.backfill.progress",
    "EmbeddedMetrics": "statemigrate.metrics.batches",
    "BatchProgress": "statemigrate.embedded.progress",
    "DryRunReport": "statemigrate.inspect.report.dry_run",
    "ENVELOPE": "statemigrate.native.live.envelope",
    "EmbeddedQuery": "statemigrate.embedded.engine.query",
    "EmbeddedOptions": "statemigrate.embedded.options",
    "Format": "statemigrate.formats",
    "NativeMetrics": "statemigrate.metrics.listener",
    "RunningQuery": "statemigrate.embedded.engine.running",
    "ScriptFolder": "statemigrate.scripts",
    "StateReader": "statemigrate.state.reader",
    "Status": "statemigrate.commands.status",
    "StatemigrateError": "statemigrate.errors",
    "Struct": "statemigrate.formats",
    "backfill_status": "statemigrate.native.backfill.progress",
    "dry_run": "statemigrate.inspect.trial.run",
    "migrated": "statemigrate.native.decorator",
    "migration_counts": "statemigrate.native.live.deployed",
    "pause_backfill": "statemigrate.native.backfill.plan",
    "plan_backfill": "statemigrate.native.backfill.plan",
    "status": "statemigrate.commands.status",
    "with_backfill": "statemigrate.native.backfill.source",
}

__all__ = [
    "ENVELOPE",
    "Avro",
    "BackfillListener",
    "BackfillOptions",
    "BackfillPlan",
    "BackfillStatus",
    "BatchProgress",
    "DryRunReport",
    "EmbeddedMetrics",
    "EmbeddedOptions",
    "EmbeddedQuery",
    "Format",
    "NativeMetrics",
    "RunningQuery",
    "ScriptFolder",
    "StateReader",
    "StatemigrateError",
    "Status",
    "Struct",
    "backfill_status",
    "dry_run",
    "migrated",
    "migration_counts",
    "pause_backfill",
    "plan_backfill",
    "status",
    "with_backfill",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'statemigrate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
