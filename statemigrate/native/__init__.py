"""Spark's own state: the same rules over the state variables of ``transformWithState``."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.native.adoption import (
        WATCHED,
        FileChange,
        Preparation,
        adopt,
        require_stopped,
        undo_adoption,
    )
    from statemigrate.native.adoption_checks import (
        counting,
        has_named_sources,
        has_room,
        native_log,
    )
    from statemigrate.native.adoption_files import OffsetLog, before_adoptions, last_backup
    from statemigrate.native.backfill_listener import (
        BackfillFigures,
        BackfillListener,
        QueryListener,
    )
    from statemigrate.native.backfill_planning import BackfillPlan, OlderFamilies, plan_backfill
    from statemigrate.native.backfill_progress import (
        BackfillStatus,
        PlannedBackfill,
        backfill_status,
        planned_backfill,
    )
    from statemigrate.native.checkpoint import SparkCheckpoint, entries_at
    from statemigrate.native.chunks import (
        ADOPTIONS,
        CONTROL,
        MADE,
        BackfillLimits,
        ChunkFiles,
        PlanRecord,
        chunks_of,
        folder_of,
        paged_in,
        within_checkpoint,
    )
    from statemigrate.native.control_rows import MARKER, Arrived
    from statemigrate.native.control_source import (
        WATERMARK,
        backfill_lines,
        control_sources,
        has_control_source,
        is_last_source_unknown,
        is_migrated,
        lacks_control_source,
        require_control_source,
        takes_keys,
        unrecorded_advice,
        with_backfill_source,
        with_control,
    )
    from statemigrate.native.decorator import fenced, mark, migrated
    from statemigrate.native.deployed_variables import (
        COUNTED,
        DEPLOYED,
        MigrationCounts,
        Stopwatch,
        Undeployable,
        migration_counts,
    )
    from statemigrate.native.deployment_check import (
        RECORD,
        ObservedCheckpoint,
        StoreRecord,
        begin_run,
        call_of,
        is_planning,
        read_record,
        record_document,
    )
    from statemigrate.native.feeder import before_first_batch
    from statemigrate.native.functions import MigratedFunction
    from statemigrate.native.listing import (
        Listing,
        column_families,
        read_listing,
        schemas_until,
    )
    from statemigrate.native.moved import check_readable, readable_uri, uri_of
    from statemigrate.native.older_families import (
        lineage_of,
        older_families,
        unknown_family,
        unscripted,
    )
    from statemigrate.native.operators import (
        PAGES,
        Operator,
        Which,
        chunk_files,
        is_name,
        is_pages,
        name_in,
        paged_names,
        pages_name,
        several,
    )
    from statemigrate.native.retrying import ATTEMPTS, is_missing, looks_again, retried, whole
    from statemigrate.native.session import Spark, session_of
    from statemigrate.native.startup_stored import ForgottenFamily, forgotten_families, read_stores
    from statemigrate.native.unlisted_families import check_all_listed, hidden_families
    from statemigrate.native.variables_startup import stored_envelopes
    from statemigrate.native.versions import REWRITING, check_spark_version, class_of_any_release
else:
    make_face(
        __name__,
        {
            "adoption": "WATCHED FileChange Preparation adopt require_stopped undo_adoption",
            "adoption_checks": "counting has_named_sources has_room native_log",
            "adoption_files": "OffsetLog before_adoptions last_backup",
            "backfill_listener": "BackfillFigures BackfillListener QueryListener",
            "backfill_planning": "BackfillPlan OlderFamilies plan_backfill",
            "backfill_progress": "BackfillStatus PlannedBackfill backfill_status planned_backfill",
            "checkpoint": "SparkCheckpoint entries_at",
            "chunks": (
                "ADOPTIONS CONTROL MADE BackfillLimits ChunkFiles PlanRecord chunks_of folder_of "
                "paged_in within_checkpoint"
            ),
            "control_rows": "MARKER Arrived",
            "control_source": (
                "WATERMARK backfill_lines control_sources has_control_source "
                "is_last_source_unknown is_migrated lacks_control_source require_control_source "
                "takes_keys unrecorded_advice with_backfill_source with_control"
            ),
            "decorator": "fenced mark migrated",
            "deployed_variables": (
                "COUNTED DEPLOYED MigrationCounts Stopwatch Undeployable migration_counts"
            ),
            "deployment_check": (
                "RECORD ObservedCheckpoint StoreRecord begin_run call_of is_planning read_record "
                "record_document"
            ),
            "feeder": "before_first_batch",
            "functions": "MigratedFunction",
            "listing": "Listing column_families read_listing schemas_until",
            "moved": "check_readable readable_uri uri_of",
            "older_families": "lineage_of older_families unknown_family unscripted",
            "operators": (
                "Operator PAGES Which chunk_files is_name is_pages name_in paged_names pages_name "
                "several"
            ),
            "retrying": "ATTEMPTS is_missing looks_again retried whole",
            "session": "Spark session_of",
            "startup_stored": "ForgottenFamily forgotten_families read_stores",
            "unlisted_families": "check_all_listed hidden_families",
            "variables_startup": "stored_envelopes",
            "versions": "REWRITING check_spark_version class_of_any_release",
        },
    )
