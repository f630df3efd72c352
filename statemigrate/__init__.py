"""Versioned migrations for the live state of Spark Structured Streaming queries.

The public names. Each is imported when it is first used, so that ``import statemigrate`` loads
neither Spark nor RocksDB nor alembic. Every verb of the command line is here under its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import Face, make_face

if TYPE_CHECKING:
    from statemigrate.budget import BackfillOptions
    from statemigrate.commands.applied import record_applied
    from statemigrate.commands.backfill import Retirement, backfill_status, pause_backfill
    from statemigrate.commands.browse import BrowseServer, browse, browse_page
    from statemigrate.commands.change_plan import ChangePlan, NamedPlan, Plans
    from statemigrate.commands.current import Current, CurrentOf, CurrentStore, Log, LogEntry, LogOf
    from statemigrate.commands.deployed_revisions import Behind
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
    from statemigrate.deployment import ENVELOPE
    from statemigrate.embedded import (
        BatchProgress,
        EmbeddedOptions,
        RunningQuery,
        StoppedBackfill,
    )
    from statemigrate.embedded_query import EmbeddedQuery
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
else:

    class _Package(Face):
        """The package itself, which says what to install where PySpark is missing."""

        def __getattr__(self, name: str) -> object:
            try:
                return super().__getattr__(name)
            except ImportError as error:
                from statemigrate.errors import without_pyspark

                raise without_pyspark(error) or error from error

    make_face(
        __name__,
        {
            "budget": "BackfillOptions",
            "commands.applied": "record_applied",
            "commands.backfill": "Retirement backfill_status pause_backfill",
            "commands.browse": "BrowseServer browse browse_page",
            "commands.change_plan": "ChangePlan NamedPlan Plans",
            "commands.current": "Current CurrentOf CurrentStore Log LogEntry LogOf",
            "commands.deployed_revisions": "Behind",
            "commands.diff": "StateDiff StoreDiff diff",
            "commands.doctor": "doctor",
            "commands.dry_run": "Trial Trials dry_run_all",
            "commands.examination": "Diagnosis Examined",
            "commands.explain": "Explanation explain",
            "commands.fleet": "Fleet Look status_of_all",
            "commands.lens_edit": "LensEdit",
            "commands.lock": "Locked",
            "commands.new_checkpoint": "rewrite",
            "commands.new_code": "NewCode",
            "commands.new_script": "NewScript autogenerate autogenerate_like baseline",
            "commands.plan": "plan",
            "commands.plan_page": "plan_page",
            "commands.preview": "preview",
            "commands.quarantine": "FailedValue",
            "commands.rebase": "Rebase",
            "commands.repair": "Repair RepairFinding",
            "commands.rewrite": "Rewriting",
            "commands.rollback": "Rollback RollbackStore rollback",
            "commands.script_for_code": "autogenerate_for",
            "commands.script_verbs": "check history new",
            "commands.scripts": "init",
            "commands.seed": "Seeding",
            "commands.sql": "Selected sql",
            "commands.squash": "Squash",
            "commands.status": "ComplementStatus FamilyStatus Status StoreStatus",
            "commands.status_page": "status_page",
            "commands.verbs": "backfill dry_run status",
            "commands.view": "ExportError Exported export get",
            "configuration": "NamedCheckpoint",
            "demo": "demo",
            "deployment": "ENVELOPE",
            "embedded": "BatchProgress EmbeddedOptions RunningQuery StoppedBackfill",
            "embedded_query": "EmbeddedQuery",
            "errors": (
                "CheckpointError CheckpointInUseError CodeError CorruptFileError "
                "ForeignFileError FormatError LineageError MissingPackageError PageError "
                "ProcessorError RewriteError ScriptError StartupError StatemigrateError "
                "StorageError TransformError UnsupportedError ValueMismatchError"
            ),
            "formats": "Avro Comparison Format Struct Value",
            "inspect": "CheckReport DryRunReport Finding Pace Unequal dry_run_file",
            "meaning": "guarded",
            "metrics": "EmbeddedMetrics NativeMetrics SourceMetrics StatusMetrics",
            "migration": "Lineage Migration",
            "native": (
                "BackfillFigures BackfillListener BackfillPlan BackfillStatus Preparation fenced "
                "migrated migration_counts"
            ),
            "preview": "Bundle Difference Example Expectations Noise Preview PreviewedBatch",
            "processor": "BatchProcessor",
            "rewrite": "Fork RewriteAnswers RewriteOptions RewritePlan RewriteReport Verified fork",
            "scripts": "Details Entry",
            "state": "SqlError StateTable StateTables open_state",
            "stateful": "paged stateful with_backfill",
        },
        _Package,
    )

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
