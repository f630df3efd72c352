"""Looking at scripts, code and state from outside, without changing any of them."""

# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from statemigrate.faces import make_face

if TYPE_CHECKING:
    from statemigrate.inspect.causes import cause_of
    from statemigrate.inspect.check_report import CheckReport, Finding
    from statemigrate.inspect.declared_code import code_of, declared_in
    from statemigrate.inspect.dry_run_report import DryRunReport, Failure, FamilyTrial, ValueExample
    from statemigrate.inspect.estimate import NATIVE_RATE, Pace
    from statemigrate.inspect.lens_equality import Comparing, Equality, LensComparison, Unequal
    from statemigrate.inspect.report_charts import Bar, BarPart, share_bar
    from statemigrate.inspect.report_html import html_page, policy_of, rendered
    from statemigrate.inspect.report_junit import junit_of, junit_xml
    from statemigrate.inspect.report_text import (
        already,
        backfill,
        broken,
        constant,
        counted,
        duration,
        growth,
        headline,
        loss,
        meetings,
        rough,
        round_trips,
        sample,
        utc_time,
        verdict,
    )
    from statemigrate.inspect.script_check import check
    from statemigrate.inspect.state_trial import check_sample, dry_run_file, tried
    from statemigrate.inspect.trial_path import TrialPath, courses
else:
    make_face(
        __name__,
        {
            "causes": "cause_of",
            "declared_code": "code_of declared_in",
            "check_report": "CheckReport Finding",
            "dry_run_report": "DryRunReport Failure FamilyTrial ValueExample",
            "estimate": "NATIVE_RATE Pace",
            "lens_equality": "Comparing Equality LensComparison Unequal",
            "report_charts": "Bar BarPart share_bar",
            "report_html": "html_page policy_of rendered",
            "report_junit": "junit_of junit_xml",
            "report_text": (
                "already backfill broken constant counted duration growth headline loss meetings "
                "rough round_trips sample utc_time verdict"
            ),
            "script_check": "check",
            "state_trial": "check_sample dry_run_file tried",
            "trial_path": "TrialPath courses",
        },
    )
