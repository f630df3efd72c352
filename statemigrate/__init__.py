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
    from statemigrate.commands.applied import record_applied
    from statemigrate.commands.backfill import Retirement, backfill_status, pause_backfill
    from statemigrate.commands.browse import BrowseServer, browse, browse_page
    from statemigrate.commands.change_plan import ChangePlan, NamedPlan, Plans
    from statemigrate.commands.current import (
        Current,
        CurrentOf,
        CurrentStore,
        Log,
        LogEntry,
        LogOf,
    )
    from statemigrate.commands.deployed import Behind
    from statemigrate.commands.diff import StateDiff, StoreDiff, diff
    from statemigrate.commands.doctor import doctor
    from statemigrate.commands.dry_run import Trial, Trials, dry_run_all
    from statemigrate.commands.examination import Diagnosis, Examined
    from statemigrate.commands.explain import Explanation, explain
    from statemigrate.commands.fleet import Fleet, Look, status_of_all
    from statemigrate.commands.lens_edit import LensEdit
    from statemigrate.commands.lock import Locked
    from statemigrate.commands.new_checkpoint import rewrite
    from statemigrate.commands.new_code import NewCode
    from statemigrate.commands.new_script import (
        NewScript,
        autogenerate,
        autogenerate_like,
        baseline,
    )
    from statemigrate.commands.plan import plan
    from statemigrate.commands.plan_page import plan_page
    from statemigrate.commands.preview import preview
    from statemigrate.commands.quarantine import FailedValue
    from statemigrate.commands.rebase import Rebase
    from statemigrate.commands.repair import Repair, RepairFinding
    from statemigrate.commands.rewrite import Rewriting
    from statemigrate.commands.rollback import Rollback, RollbackStore, rollback
    from statemigrate.commands.script_for_code import autogenerate_for
    from statemigrate.commands.script_verbs import check, history, new
    from statemigrate.commands.scripts import init
    from statemigrate.commands.seed import Seeding
    from statemigrate.commands.sql import Selected, sql
    from statemigrate.commands.squash import Squash
    from statemigrate.commands.status import (
        ComplementStatus,
        FamilyStatus,
        Status,
        StoreStatus,
    )
    from statemigrate.commands.status_page import status_page
    from statemigrate.commands.verbs import backfill, dry_run, status
    from statemigrate.commands.view import Exported, ExportError, export, get
    from statemigrate.configuration import NamedCheckpoint
    from statemigrate.demo import demo
    from statemigrate.embedded import (
        BatchProgress,
        EmbeddedOptions,
        EmbeddedQuery,
        RunningQuery,
        StoppedBackfill,
    )
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
    from statemigrate.inspect import CheckReport, DryRunReport, Finding, Pace, Unequal, dry_run_file
    from statemigrate.meaning import guarded
    from statemigrate.metrics import EmbeddedMetrics, NativeMetrics, SourceMetrics, StatusMetrics
    from statemigrate.migration import Lineage, Migration
    from statemigrate.native import (
        ENVELOPE,
        BackfillFigures,
        BackfillListener,
        BackfillPlan,
        BackfillStatus,
        Preparation,
        fenced,
        migrated,
        migration_counts,
    )
    from statemigrate.preview import (
        Bundle,
        Difference,
        Example,
        Expectations,
        Noise,
        Preview,
        PreviewedBatch,
    )
    from statemigrate.processor import BatchProcessor
    from statemigrate.rewrite import (
        Fork,
        RewriteAnswers,
        RewriteOptions,
        RewritePlan,
        RewriteReport,
        Verified,
        fork,
    )
    from statemigrate.scripts import Details, Entry
    from statemigrate.state import SqlError, StateTable, StateTables, open_state
    from statemigrate.stateful import paged, stateful, with_backfill


_NAMES = {
    "statemigrate.budget": "BackfillOptions",
    "statemigrate.commands.applied": "record_applied",
    "statemigrate.commands.backfill": "Retirement backfill_status pause_backfill",
    "statemigrate.commands.current": ("Current CurrentOf CurrentStore Log LogEntry LogOf"),
    "statemigrate.commands.deployed": "Behind",
    "statemigrate.commands.browse": "BrowseServer browse browse_page",
    "statemigrate.commands.diff": "diff StateDiff StoreDiff",
    "statemigrate.commands.doctor": "doctor",
    "statemigrate.commands.dry_run": "dry_run_all dry_run_file Trial Trials",
    "statemigrate.commands.examination": "Diagnosis Examined",
    "statemigrate.commands.explain": "explain Explanation",
    "statemigrate.commands.fleet": "Fleet Look status_of_all",
    "statemigrate.commands.new_checkpoint": "rewrite",
    "statemigrate.commands.new_code": "NewCode",
    "statemigrate.commands.new_script": "autogenerate autogenerate_like baseline NewScript",
    "statemigrate.commands.script_for_code": "autogenerate_for",
    "statemigrate.commands.change_plan": "ChangePlan NamedPlan Plans",
    "statemigrate.commands.lens_edit": "LensEdit",
    "statemigrate.commands.lock": "Locked",
    "statemigrate.commands.plan": "plan",
    "statemigrate.commands.plan_page": "plan_page",
    "statemigrate.commands.preview": "preview",
    "statemigrate.commands.quarantine": "FailedValue",
    "statemigrate.commands.rebase": "Rebase",
    "statemigrate.commands.repair": "Repair RepairFinding",
    "statemigrate.commands.rewrite": "Fork fork Rewriting",
    "statemigrate.commands.rollback": "Rollback rollback RollbackStore",
    "statemigrate.commands.script_verbs": "check history new",
    "statemigrate.commands.scripts": "init",
    "statemigrate.commands.seed": "Seeding",
    "statemigrate.commands.sql": "Selected sql",
    "statemigrate.commands.squash": "Squash",
    "statemigrate.commands.status": "ComplementStatus FamilyStatus Status StoreStatus",
    "statemigrate.commands.status_page": "status_page",
    "statemigrate.commands.verbs": "backfill dry_run status",
    "statemigrate.commands.view": "export Exported ExportError get",
    "statemigrate.configuration": "NamedCheckpoint",
    "statemigrate.demo.run": "demo",
    "statemigrate.embedded.offline": "StoppedBackfill",
    "statemigrate.embedded.options": "EmbeddedOptions",
    "statemigrate.embedded.progress": "BatchProgress",
    "statemigrate.embedded.query": "EmbeddedQuery RunningQuery",
    "statemigrate.errors": (
        "CheckpointError CheckpointInUseError CodeError CorruptFileError ForeignFileError "
        "FormatError LineageError MissingPackageError PageError ProcessorError "
        "RewriteError ScriptError StartupError StatemigrateError StorageError "
        "TransformError UnsupportedError ValueMismatchError"
    ),
    "statemigrate.formats": "Avro Comparison Format Struct Value",
    "statemigrate.inspect.check_report": "CheckReport Finding",
    "statemigrate.inspect.lens_equality": "Unequal",
    "statemigrate.inspect.estimate": "Pace",
    "statemigrate.inspect.report": "DryRunReport",
    "statemigrate.meaning.guard": "guarded",
    "statemigrate.metrics.instruments": "EmbeddedMetrics StatusMetrics",
    "statemigrate.metrics.listeners": "NativeMetrics SourceMetrics",
    "statemigrate.migration": "Lineage Migration",
    "statemigrate.native.adoption": "Preparation",
    "statemigrate.native.backfill": "BackfillPlan",
    "statemigrate.native.backfill_listener": "BackfillFigures BackfillListener",
    "statemigrate.native.backfill_progress": "BackfillStatus",
    "statemigrate.native.decorator": "fenced migrated",
    "statemigrate.native.deployed": "migration_counts",
    "statemigrate.native.functions": "ENVELOPE",
    "statemigrate.preview.bundle": "Bundle",
    "statemigrate.preview.comparison": "Difference Example",
    "statemigrate.preview.expectations": "Expectations",
    "statemigrate.preview.report": "Noise Preview PreviewedBatch",
    "statemigrate.processor.batch_processor": "BatchProcessor",
    "statemigrate.rewrite.plan": "RewritePlan",
    "statemigrate.rewrite.questions": "RewriteAnswers",
    "statemigrate.rewrite.report": "RewriteReport",
    "statemigrate.rewrite.sources": "RewriteOptions",
    "statemigrate.rewrite.verify": "Verified",
    "statemigrate.scripts": "Details Entry",
    "statemigrate.state.sql": "SqlError",
    "statemigrate.state.tables": "open_state StateTable StateTables",
    "statemigrate.stateful": "paged stateful with_backfill",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ENVELOPE",
    "Avro",
    "BackfillFigures",
    "BackfillListener",
    "BackfillOptions",
    "BackfillPlan",
    "BackfillStatus",
    "BatchProcessor",
    "BatchProgress",
    "Behind",
    "BrowseServer",
    "Bundle",
    "ChangePlan",
    "CheckReport",
    "CheckpointError",
    "CheckpointInUseError",
    "CodeError",
    "Comparison",
    "ComplementStatus",
    "CorruptFileError",
    "Current",
    "CurrentOf",
    "CurrentStore",
    "Details",
    "Diagnosis",
    "Difference",
    "DryRunReport",
    "EmbeddedMetrics",
    "EmbeddedOptions",
    "EmbeddedQuery",
    "Entry",
    "Examined",
    "Example",
    "Expectations",
    "Explanation",
    "ExportError",
    "Exported",
    "FailedValue",
    "FamilyStatus",
    "Finding",
    "Fleet",
    "ForeignFileError",
    "Fork",
    "Format",
    "FormatError",
    "LensEdit",
    "Lineage",
    "LineageError",
    "Locked",
    "Log",
    "LogEntry",
    "LogOf",
    "Look",
    "Migration",
    "MissingPackageError",
    "NamedCheckpoint",
    "NamedPlan",
    "NativeMetrics",
    "NewCode",
    "NewScript",
    "Noise",
    "Pace",
    "PageError",
    "Plans",
    "Preparation",
    "Preview",
    "PreviewedBatch",
    "ProcessorError",
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
    "Selected",
    "SourceMetrics",
    "SqlError",
    "Squash",
    "StartupError",
    "StateDiff",
    "StateTable",
    "StateTables",
    "StatemigrateError",
    "Status",
    "StatusMetrics",
    "StoppedBackfill",
    "StorageError",
    "StoreDiff",
    "StoreStatus",
    "Struct",
    "TransformError",
    "Trial",
    "Trials",
    "Unequal",
    "UnsupportedError",
    "Value",
    "ValueMismatchError",
    "Verified",
    "autogenerate",
    "autogenerate_for",
    "autogenerate_like",
    "backfill",
    "backfill_status",
    "baseline",
    "browse",
    "browse_page",
    "check",
    "demo",
    "diff",
    "doctor",
    "dry_run",
    "dry_run_all",
    "dry_run_file",
    "explain",
    "export",
    "fenced",
    "fork",
    "get",
    "guarded",
    "history",
    "init",
    "migrated",
    "migration_counts",
    "new",
    "open_state",
    "paged",
    "pause_backfill",
    "plan",
    "plan_page",
    "preview",
    "record_applied",
    "rewrite",
    "rollback",
    "sql",
    "stateful",
    "status",
    "status_of_all",
    "status_page",
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
