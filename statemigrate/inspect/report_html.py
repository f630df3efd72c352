"""A dry run as one self-contained page, to attach to a change."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.inspect import report_charts as html_charts
from statemigrate.inspect import report_text as sentences
from statemigrate.inspect import report_text as text
from statemigrate.inspect.dry_run_report import DryRunReport
from statemigrate.inspect.report_text import verdict

if TYPE_CHECKING:
    from mako.lookup import TemplateLookup


_TEMPLATES = Path(__file__).with_name("html_template")


def html_page(report: DryRunReport) -> str:
    """The report as an HTML page without scripts, which loads nothing from anywhere.

    All text of the report is escaped; the page's own policy lets a browser use its one style sheet
    and nothing else.
    """
    return rendered(
        "page.mako",
        report=report,
        charts=html_charts,
        sentences=sentences,
        verdict=verdict(report),
    )


def rendered(template: str, *, forms: bool = False, **data: Any) -> str:
    """A page made from one of the templates, with the one style sheet and its policy.

    With ``forms`` the page may ask its own server.
    """
    style = _style()
    page: str = (
        _lookup()
        .get_template(template)
        .render_unicode(style=style, policy=policy_of(forms=forms), text=text, **data)
    )
    return page


@cache
def _lookup() -> TemplateLookup:
    from mako.lookup import TemplateLookup

    return TemplateLookup(
        [str(_TEMPLATES)],
        input_encoding="utf-8",
        strict_undefined=True,
        imports=["from statemigrate.quoting import visible, visible_lines"],
        # Whatever a template shows goes through both, unless it says otherwise.
        default_filters=["visible", "h"],
    )


def policy_of(*, forms: bool = False) -> str:
    """The content security policy of a page that `rendered` makes."""
    digest = b64encode(sha256(_style().encode()).digest()).decode()
    target = "'self'" if forms else "'none'"
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action {target}"


@cache
def _style() -> str:
    return (_TEMPLATES / "page.css").read_text(encoding="utf-8")
