"""Versioned migrations for the live state of Spark Structured Streaming queries.

The public names. Each is imported when it is first used, so that ``import statemigrate`` loads
neither Spark nor RocksDB nor alembic. Every verb of the command line is here under its own name.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemigrate.budget import BackfillOptions
    from statemigrate.commands.adopt import adopt, undo_adoption
    from statemigrate.commands.applied import record_applied
    from statemigrate.commands.check import check
    from statemigrate.commands.chunked_backfill import backfill_status, pause_backfill
    from statemigrate.commands.dry_run import dry_run_file
    from statemigrate.commands.dry_run_all import Trial, Trials, dry_run_all
    from statemigrate.commands.explain import Explanation, explain
    from statemigrate.commands.following.current import (
        Current,
        CurrentOf,
        CurrentStore,
        current_of_all,
    )
    from statemigrate.commands.following.deployed import Behind
    from statemigrate.commands.following.fleet import Fleet, Look, status_of_all
    from statemigrate.commands.following.log import Log, LogEntry, LogOf
    from statemigrate.commands.following.page import status_page
    from statemigrate.commands.following.status import Status
    from statemigrate.commands.following.store_status import FamilyStatus, StoreStatus
    from statemigrate.commands.health.doctor import doctor
    from statemigrate.commands.health.report import Diagnosis, Examined
    from statemigrate.commands.quarantine import Quarantined, quarantine
    from statemigrate.commands.rebase import Rebase, rebase
    from statemigrate.commands.repair import Repair, RepairFinding, repair
    from statemigrate.commands.retire import Retirement, retire
    from statemigrate.commands.rewriting.fork import Fork, fork
    from statemigrate.commands.rewriting.new_code import NewCode
    from statemigrate.commands.rewriting.rewrite import Rewriting, rewrite, rewrite_checkpoint
    from statemigrate.commands.rewriting.seed import Seeding, seed
    from statemigrate.commands.rewriting.verify import verify
    from statemigrate.commands.rollback import Rollback, RollbackStore, rollback
    from statemigrate.commands.scripts import edit, heads, history, init, show
    from statemigrate.commands.verbs import backfill, current, dry_run, log, new, status
    from statemigrate.commands.view import Exported, ExportError, export, get
    from statemigrate.commands.writing.autogenerate import autogenerate
    from statemigrate.commands.writing.baseline import baseline
    from statemigrate.commands.writing.likeness import autogenerate_like
    from statemigrate.commands.writing.new import NewScript
    from statemigrate.configuration import NamedCheckpoint
    from statemigrate.demo.run import demo
    from statemigrate.embedded.engine.driver.query import EmbeddedQuery
    from statemigrate.embedded.engine.driver.running import RunningQuery
    from statemigrate.embedded.engine.stopped.offline import StoppedBackfill
    from statemigrate.embedded.options import EmbeddedOptions
    from statemigrate.embedded.progress import BatchProgress
    from statemigrate.errors import (
        CheckpointError,
        CheckpointInUseError,
        CodeError,
        CorruptFileError,
        ForeignFileError,
        FormatError,
        LineageError,
        MissingPackageError,
        PageError,
        ProcessorError,
        RewriteError,
        ScriptError,
        StartupError,
        StatemigrateError,
        StorageError,
        TransformError,
        UnsupportedError,
        ValueMismatchError,
    )
    from statemigrate.formats import Avro, Comparison, Format, Struct, Value
    from statemigrate.inspect.checking.report import CheckReport, Finding
    from statemigrate.inspect.report.dry_run import DryRunReport
    from statemigrate.inspect.trial.estimate import Pace
    from statemigrate.metrics.batches import EmbeddedMetrics
    from statemigrate.metrics.listener import NativeMetrics
    from statemigrate.metrics.sources import SourceMetrics
    from statemigrate.metrics.status import StatusMetrics
    from statemigrate.migration import Lineage, Migration
    from statemigrate.native.adoption import Adoption
    from statemigrate.native.backfill.plan import BackfillPlan
    from statemigrate.native.backfill.progress import (
        BackfillFigures,
        BackfillListener,
        BackfillStatus,
    )
    from statemigrate.native.backfill.source import with_backfill
    from statemigrate.native.decorator import migrated
    from statemigrate.native.fenced import fenced
    from statemigrate.native.live.deployed import migration_counts
    from statemigrate.native.live.envelope import ENVELOPE
    from statemigrate.pages.query import paged
    from statemigrate.rewrite.plan.asking.questions import RewriteAnswers
    from statemigrate.rewrite.plan.options import RewriteOptions
    from statemigrate.rewrite.plan.plan import RewritePlan
    from statemigrate.rewrite.run.report import RewriteReport
    from statemigrate.rewrite.verifying.verify import Verified
    from statemigrate.scripts import Details, Entry
    from statemigrate.state.reader import StateReader

_NAMES = {
    "statemigrate.budget": "BackfillOptions",
    "statemigrate.commands.adopt": "adopt undo_adoption",
    "statemigrate.commands.applied": "record_applied",
    "statemigrate.commands.writing.autogenerate": "autogenerate",
    "statemigrate.commands.chunked_backfill": "backfill_status pause_backfill",
    "statemigrate.commands.writing.baseline": "baseline",
    "statemigrate.commands.writing.likeness": "autogenerate_like",
    "statemigrate.commands.check": "check",
    "statemigrate.commands.dry_run": "dry_run_file",
    "statemigrate.commands.dry_run_all": "Trial Trials dry_run_all",
    "statemigrate.commands.explain": "Explanation explain",
    "statemigrate.commands.writing.new": "NewScript",
    "statemigrate.commands.quarantine": "Quarantined quarantine",
    "statemigrate.commands.health.doctor": "doctor",
    "statemigrate.commands.health.report": "Diagnosis Examined",
    "statemigrate.commands.rebase": "Rebase rebase",
    "statemigrate.commands.rollback": "Rollback RollbackStore rollback",
    "statemigrate.commands.repair": "Repair RepairFinding repair",
    "statemigrate.commands.retire": "Retirement retire",
    "statemigrate.commands.rewriting.fork": "Fork fork",
    "statemigrate.commands.rewriting.new_code": "NewCode",
    "statemigrate.commands.rewriting.rewrite": "Rewriting rewrite rewrite_checkpoint",
    "statemigrate.commands.rewriting.seed": "Seeding seed",
    "statemigrate.commands.rewriting.verify": "verify",
    "statemigrate.commands.scripts": "edit heads history init show",
    "statemigrate.commands.following.current": ("Current CurrentOf CurrentStore current_of_all"),
    "statemigrate.commands.following.log": "Log LogEntry LogOf",
    "statemigrate.commands.following.fleet": "Fleet Look status_of_all",
    "statemigrate.commands.following.page": "status_page",
    "statemigrate.commands.following.deployed": "Behind",
    "statemigrate.metrics.status": "StatusMetrics",
    "statemigrate.commands.following.status": "Status",
    "statemigrate.commands.following.store_status": "FamilyStatus StoreStatus",
    "statemigrate.commands.verbs": "backfill current dry_run log new status",
    "statemigrate.configuration": "NamedCheckpoint",
    "statemigrate.demo.run": "demo",
    "statemigrate.commands.view": "ExportError Exported export get",
    "statemigrate.embedded.engine.stopped.offline": "StoppedBackfill",
    "statemigrate.embedded.engine.driver.query": "EmbeddedQuery",
    "statemigrate.embedded.engine.driver.running": "RunningQuery",
    "statemigrate.embedded.options": "EmbeddedOptions",
    "statemigrate.embedded.progress": "BatchProgress",
    "statemigrate.errors": (
        "CheckpointError CheckpointInUseError CodeError CorruptFileError ForeignFileError "
        "FormatError LineageError MissingPackageError PageError ProcessorError RewriteError "
        "ScriptError StartupError StatemigrateError StorageError TransformError UnsupportedError "
        "ValueMismatchError"
    ),
    "statemigrate.formats": "Avro Comparison Format Struct Value",
    "statemigrate.inspect.checking.report": "CheckReport Finding",
    "statemigrate.inspect.report.dry_run": "DryRunReport",
    "statemigrate.inspect.trial.estimate": "Pace",
    "statemigrate.metrics.batches": "EmbeddedMetrics",
    "statemigrate.metrics.listener": "NativeMetrics",
    "statemigrate.metrics.sources": "SourceMetrics",
    "statemigrate.migration": "Lineage Migration",
    "statemigrate.native.adoption": "Adoption",
    "statemigrate.native.backfill.plan": "BackfillPlan",
    "statemigrate.native.backfill.progress": "BackfillFigures BackfillListener BackfillStatus",
    "statemigrate.native.backfill.source": "with_backfill",
    "statemigrate.native.decorator": "migrated",
    "statemigrate.native.fenced": "fenced",
    "statemigrate.native.live.deployed": "migration_counts",
    "statemigrate.native.live.envelope": "ENVELOPE",
    "statemigrate.pages.query": "paged",
    "statemigrate.rewrite.plan.options": "RewriteOptions",
    "statemigrate.rewrite.plan.plan": "RewritePlan",
    "statemigrate.rewrite.plan.asking.questions": "RewriteAnswers",
    "statemigrate.rewrite.run.report": "RewriteReport",
    "statemigrate.rewrite.verifying.verify": "Verified",
    "statemigrate.scripts": "Details Entry",
    "statemigrate.state.reader": "StateReader",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ENVELOPE",
    "Adoption",
    "Avro",
    "BackfillFigures",
    "BackfillListener",
    "BackfillOptions",
    "BackfillPlan",
    "BackfillStatus",
    "BatchProgress",
    "Behind",
    "CheckReport",
    "CheckpointError",
    "CheckpointInUseError",
    "CodeError",
    "Comparison",
    "CorruptFileError",
    "Current",
    "CurrentOf",
    "CurrentStore",
    "Details",
    "Diagnosis",
    "DryRunReport",
    "EmbeddedMetrics",
    "EmbeddedOptions",
    "EmbeddedQuery",
    "Entry",
    "Examined",
    "Explanation",
    "ExportError",
    "Exported",
    "FamilyStatus",
    "Finding",
    "Fleet",
    "ForeignFileError",
    "Fork",
    "Format",
    "FormatError",
    "Lineage",
    "LineageError",
    "Log",
    "LogEntry",
    "LogOf",
    "Look",
    "Migration",
    "MissingPackageError",
    "NamedCheckpoint",
    "NativeMetrics",
    "NewCode",
    "NewScript",
    "Pace",
    "PageError",
    "ProcessorError",
    "Quarantined",
    "Rebase",
    "Repair",
    "RepairFinding",
    "Retirement",
    "RewriteAnswers",
    "RewriteError",
    "RewriteOptions",
    "RewritePlan",
    "RewriteReport",
    "Rewriting",
    "Rollback",
    "RollbackStore",
    "RunningQuery",
    "ScriptError",
    "Seeding",
    "SourceMetrics",
    "StartupError",
    "StateReader",
    "StatemigrateError",
    "Status",
    "StatusMetrics",
    "StoppedBackfill",
    "StorageError",
    "StoreStatus",
    "Struct",
    "TransformError",
    "Trial",
    "Trials",
    "UnsupportedError",
    "Value",
    "ValueMismatchError",
    "Verified",
    "adopt",
    "autogenerate",
    "autogenerate_like",
    "backfill",
    "backfill_status",
    "baseline",
    "check",
    "current",
    "current_of_all",
    "demo",
    "doctor",
    "dry_run",
    "dry_run_all",
    "dry_run_file",
    "edit",
    "explain",
    "export",
    "fenced",
    "fork",
    "get",
    "heads",
    "history",
    "init",
    "log",
    "migrated",
    "migration_counts",
    "new",
    "paged",
    "pause_backfill",
    "quarantine",
    "rebase",
    "record_applied",
    "repair",
    "retire",
    "rewrite",
    "rewrite_checkpoint",
    "rollback",
    "seed",
    "show",
    "status",
    "status_of_all",
    "status_page",
    "undo_adoption",
    "verify",
    "with_backfill",
]


class _Package(ModuleType):
    """The package itself, on which a public name is never one of its rooms.

    Python makes a room that is imported an attribute of its package. One that has the name of a
    verb would be found then in the verb's place; it is imported by its whole name as before.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'statemigrate' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        from statemigrate.errors import without_pyspark

        raise without_pyspark(error) or error from error


def __dir__() -> list[str]:
    return __all__
