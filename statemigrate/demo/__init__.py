"""The demonstration: a stream whose state changes its format while a crash gets in the way.

`statemigrate.demo.run.run_demo` yields what happens; drawing it is left to the caller.
"""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.demo.demo_size import DemoOptions
    from statemigrate.demo.paths import DemoFolder
    from statemigrate.demo.run import demo, keep, next_commands, run_demo
    from statemigrate.demo.stage import BatchOutcome
    from statemigrate.demo.story import (
        ActBegun,
        BatchDone,
        Finished,
        Killed,
        PlainBatchDone,
        Previewed,
        Refused,
        Rewritten,
        Step,
    )
    from statemigrate.demo.verdict import (
        Figures,
        KeyComparison,
        PreviewedChange,
        PreviewFigures,
        RewriteFigures,
        RewritingFigures,
    )
else:
    make_face(
        __name__,
        {
            "demo_size": "DemoOptions",
            "paths": "DemoFolder",
            "run": "demo keep next_commands run_demo",
            "stage": "BatchOutcome",
            "story": (
                "ActBegun BatchDone Finished Killed PlainBatchDone Previewed Refused Rewritten Step"
            ),
            "verdict": (
                "Figures KeyComparison PreviewFigures PreviewedChange RewriteFigures "
                "RewritingFigures"
            ),
        },
    )
