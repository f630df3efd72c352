"""A new checkpoint from an old one: for any change, of any state that Spark keeps."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.rewrite.aggregates import AggregateFunction, KnownFunctions
    from statemigrate.rewrite.column_pairing import FamilyAddress, operator_name, store_families
    from statemigrate.rewrite.family_plans import (
        Paging,
        ScriptedFamily,
        VariablesLayout,
        has_functions,
        written_name,
    )
    from statemigrate.rewrite.forgotten_rows import (
        ForgottenFamilyRows,
        ForgottenRows,
        RestoredCheckpoint,
        with_forgotten,
    )
    from statemigrate.rewrite.forgotten_sources import find_sources
    from statemigrate.rewrite.fork import Fork, fork, fork_batches, fork_state, fork_with_state
    from statemigrate.rewrite.meaning_questions import key_questions, window_questions
    from statemigrate.rewrite.origin import OldCheckpoint, Target
    from statemigrate.rewrite.plan_expressions import ATTRIBUTE, LITERAL, PlanExpression, is_hidden
    from statemigrate.rewrite.plan_settings import (
        ANSI,
        DEFAULTS,
        EFFECTS,
        ZONE,
        in_any_session,
        settings_in,
        without_settings,
        zones_in,
    )
    from statemigrate.rewrite.plan_tree import ROWS_OF_CODE
    from statemigrate.rewrite.probe import (
        call_on_empty_streams,
        input_names,
        input_schemas,
        operator_with,
        operator_with_pages,
        probe_folder,
        probed_inputs,
        run_once,
        session_parameters,
    )
    from statemigrate.rewrite.probe_facts import WITHOUT_NULLS, OperatorFact
    from statemigrate.rewrite.python_code import python_releases, without_bytecode
    from statemigrate.rewrite.questions import EXPIRES, OF_TABLES, Question, RewriteAnswers
    from statemigrate.rewrite.rewrite_plan import RewritePlan, laid_out, make_plan, plan_document
    from statemigrate.rewrite.rewrite_refusals import refuse_unsupported
    from statemigrate.rewrite.rewrite_report import RewriteReport, find_report, read_report
    from statemigrate.rewrite.run import Progress, check_stopped, doubts, run_plan
    from statemigrate.rewrite.script_ways import RewriteScripts, Scripted, StoreScripts
    from statemigrate.rewrite.seed import Seed, find_seeds, only_store, seed_script, seeded_stores
    from statemigrate.rewrite.seed_rows import BATCH, SeedTables, before_seeding, check_tables
    from statemigrate.rewrite.seed_tables import SeedTable, is_json
    from statemigrate.rewrite.source_logs import check_offsets
    from statemigrate.rewrite.sources import NewSources, RewriteOptions
    from statemigrate.rewrite.spark_reader import StateReader, rewriting_session
    from statemigrate.rewrite.state_schemas import StateSchema, probed_schemas, state_ddl
    from statemigrate.rewrite.store_writers import StoreAddress, StoreFiles
    from statemigrate.rewrite.stream_plan import (
        EMBEDDED,
        PlanMeaning,
        StreamWriter,
        embedded_meaning,
        plan_meaning,
    )
    from statemigrate.rewrite.verify import Verified, verify_files
    from statemigrate.rewrite.window_columns import (
        NewWindows,
        ObservedWindows,
        changed_keys,
        find_windows,
        observe_windows,
    )
    from statemigrate.rewrite.windows import (
        KeyMeaning,
        Meanings,
        TimeWindow,
        WindowFinding,
        window_from_json,
    )
else:
    make_face(
        __name__,
        {
            "aggregates": "AggregateFunction KnownFunctions",
            "column_pairing": "FamilyAddress operator_name store_families",
            "family_plans": "Paging ScriptedFamily VariablesLayout has_functions written_name",
            "forgotten_rows": "ForgottenFamilyRows ForgottenRows RestoredCheckpoint with_forgotten",
            "forgotten_sources": "find_sources",
            "fork": "Fork fork fork_batches fork_state fork_with_state",
            "meaning_questions": "key_questions window_questions",
            "origin": "OldCheckpoint Target",
            "plan_expressions": "ATTRIBUTE LITERAL PlanExpression is_hidden",
            "plan_settings": (
                "ANSI DEFAULTS EFFECTS ZONE in_any_session settings_in without_settings zones_in"
            ),
            "plan_tree": "ROWS_OF_CODE",
            "probe": (
                "call_on_empty_streams input_names input_schemas operator_with operator_with_pages "
                "probe_folder probed_inputs run_once session_parameters"
            ),
            "probe_facts": "WITHOUT_NULLS OperatorFact",
            "python_code": "python_releases without_bytecode",
            "questions": "EXPIRES OF_TABLES Question RewriteAnswers",
            "rewrite_plan": "RewritePlan laid_out make_plan plan_document",
            "rewrite_refusals": "refuse_unsupported",
            "rewrite_report": "RewriteReport find_report read_report",
            "run": "Progress check_stopped doubts run_plan",
            "script_ways": "RewriteScripts Scripted StoreScripts",
            "seed": "Seed find_seeds only_store seed_script seeded_stores",
            "seed_rows": "BATCH SeedTables before_seeding check_tables",
            "seed_tables": "SeedTable is_json",
            "source_logs": "check_offsets",
            "sources": "NewSources RewriteOptions",
            "spark_reader": "StateReader rewriting_session",
            "state_schemas": "StateSchema probed_schemas state_ddl",
            "store_writers": "StoreAddress StoreFiles",
            "stream_plan": "EMBEDDED PlanMeaning StreamWriter embedded_meaning plan_meaning",
            "verify": "Verified verify_files",
            "window_columns": (
                "NewWindows ObservedWindows changed_keys find_windows observe_windows"
            ),
            "windows": "KeyMeaning Meanings TimeWindow WindowFinding window_from_json",
        },
    )
