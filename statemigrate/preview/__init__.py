"""Preview: new code run on the batches that a query has committed, and what comes of it."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.preview.bundle import (
        MAX_BYTES,
        Bundle,
        compare_checksums,
        is_bundle,
        open_bundle,
        save_bundle,
    )
    from statemigrate.preview.bundle_rows import BundleRows
    from statemigrate.preview.comparison import (
        OUTPUT,
        ROWS,
        Difference,
        Example,
        RowsReadOnce,
        Same,
        StateComparison,
        compare_output,
        compare_states,
        equal,
    )
    from statemigrate.preview.engines import StateEngine, engine_of
    from statemigrate.preview.expectations import Expectations
    from statemigrate.preview.history import History, batches_after, last_batches
    from statemigrate.preview.inputs import RecordedInput, find_files
    from statemigrate.preview.key_sample import KeySample
    from statemigrate.preview.recording import BundledRecorder, Opener, Recorder, SourceRecorder
    from statemigrate.preview.replay import (
        WITHOUT_NAMES,
        QueryFunction,
        Replayed,
        copy_fork,
        point_at_inputs,
        replay,
        start_fork,
    )
    from statemigrate.preview.report import Noise, Path, Preview, PreviewedBatch
    from statemigrate.preview.stream_plan import UnoptimizedPlan
    from statemigrate.preview.workspace import workspace
else:
    make_face(
        __name__,
        {
            "bundle": "MAX_BYTES Bundle compare_checksums is_bundle open_bundle save_bundle",
            "bundle_rows": "BundleRows",
            "comparison": (
                "OUTPUT ROWS Difference Example RowsReadOnce Same StateComparison compare_output "
                "compare_states equal"
            ),
            "engines": "StateEngine engine_of",
            "expectations": "Expectations",
            "history": "History batches_after last_batches",
            "inputs": "RecordedInput find_files",
            "key_sample": "KeySample",
            "recording": "BundledRecorder Opener Recorder SourceRecorder",
            "replay": (
                "WITHOUT_NAMES QueryFunction Replayed copy_fork point_at_inputs replay start_fork"
            ),
            "report": "Noise Path Preview PreviewedBatch",
            "stream_plan": "UnoptimizedPlan",
            "workspace": "workspace",
        },
    )
