"""Versioned migrations for the live state of Spark Structured Streaming queries.

The public names. Each is imported when it is first used, so that ``import statemigrate`` loads
neither Spark nor RocksDB nor alembic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemigrate.backfill import BackfillOptions
    from statemigrate.embedded.options import EngineOptions
    from statemigrate.embedded.progress import BatchProgress
    from statemigrate.embedded.query import EmbeddedQuery
    from statemigrate.embedded.running import RunningQuery
    from statemigrate.errors import StatemigrateError
    from statemigrate.formats import Avro, Format, Struct
    from statemigrate.inspect.dry_run import dry_run
    from statemigrate.inspect.reader import StateReader
    from statemigrate.inspect.report import DryRunReport
    from statemigrate.inspect.status import Status, status
    from statemigrate.metrics.batches import BatchMetrics
    from statemigrate.metrics.listener import MigrationMetrics
    from statemigrate.native.chunks import BackfillPlan, pause_backfill, plan_backfill
    from statemigrate.native.decorator import migrated
    from statemigrate.native.deployed import migration_counts
    from statemigrate.native.envelope import ENVELOPE
    from statemigrate.native.progress import BackfillProgress, BackfillStatus, backfill_status
    from statemigrate.native.source import with_backfill
    from statemigrate.scripts import ScriptFolder

_HOMES = {
    "Avro": "statemigrate.formats",
    "BackfillOptions": "statemigrate.backfill",
    "BackfillPlan": "statemigrate.native.chunks",
    "BackfillProgress": "statemigrate.native.progress",
    "BackfillStatus": "statemigrate.native.progress",
    "BatchMetrics": "statemigrate.metrics.batches",
    "BatchProgress": "statemigrate.embedded.progress",
    "DryRunReport": "statemigrate.inspect.report",
    "ENVELOPE": "statemigrate.native.envelope",
    "EmbeddedQuery": "statemigrate.embedded.query",
    "EngineOptions": "statemigrate.embedded.options",
    "Format": "statemigrate.formats",
    "MigrationMetrics": "statemigrate.metrics.listener",
    "RunningQuery": "statemigrate.embedded.running",
    "ScriptFolder": "statemigrate.scripts",
    "StateReader": "statemigrate.inspect.reader",
    "Status": "statemigrate.inspect.status",
    "StatemigrateError": "statemigrate.errors",
    "Struct": "statemigrate.formats",
    "backfill_status": "statemigrate.native.progress",
    "dry_run": "statemigrate.inspect.dry_run",
    "migrated": "statemigrate.native.decorator",
    "migration_counts": "statemigrate.native.deployed",
    "pause_backfill": "statemigrate.native.chunks",
    "plan_backfill": "statemigrate.native.chunks",
    "status": "statemigrate.inspect.status",
    "with_backfill": "statemigrate.native.source",
}

__all__ = [
    "ENVELOPE",
    "Avro",
    "BackfillOptions",
    "BackfillPlan",
    "BackfillProgress",
    "BackfillStatus",
    "BatchMetrics",
    "BatchProgress",
    "DryRunReport",
    "EmbeddedQuery",
    "EngineOptions",
    "Format",
    "MigrationMetrics",
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
