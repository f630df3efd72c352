"""The pages of dry runs and statuses as Chromium shows them: on a phone, a screen, on paper."""

import pytest
from support.dry_runs import EMPTY, GOOD, LOSING, NASTY, REPORT, huge
from support.fleets import BEHIND, FINISHED, FLEET, FORTY, NASTY_FLEET
from support.plans import ORDERS, PLANS

from statemigrate import ChangePlan, DryRunReport, Plans, plan_page, status_page
from statemigrate.inspect.report_html import html_page

REPORTS = {
    "ordinary": REPORT,
    "nasty": NASTY,
    "losing": LOSING,
    "good": GOOD,
    "empty": EMPTY,
    "huge": huge(2, 40),
    "fleet": FLEET,
    "forty": FORTY,
    "nasty fleet": NASTY_FLEET,
    "finished": FINISHED,
    "behind": BEHIND,
    "plan": ORDERS,
    "plans": PLANS,
}
VIEWS = {
    "phone": ({"width": 360, "height": 740}, {}),
    "screen": ({"width": 1280, "height": 900}, {}),
    "dark": ({"width": 1280, "height": 900}, {"color_scheme": "dark"}),
    # What is left of a sheet of A4 between its margins.
    "print": ({"width": 680, "height": 1000}, {"media": "print"}),
}


def views(*usual):
    """All views; `make test` takes the usual ones."""
    few = pytest.mark.long(weight=1 / 12)
    return [pytest.param(each, marks=() if each in usual else few) for each in VIEWS]


def page_of(report):
    """The page of a dry run, a plan or a status."""
    if isinstance(report, DryRunReport):
        return html_page(report)
    return plan_page(report) if isinstance(report, ChangePlan | Plans) else status_page(report)


# What each bar of the ordinary report has to show: its parts and their share of the chart's width.
BARS = {
    "auctions_04cb3bbb72d2: 420 passed": [("passed", 1)],
    "auctions: 999,997 passed, 3 failed, 250,000 not sampled": [
        ("passed", 999_997 / 1_250_000),
        ("failed", 3 / 1_250_000),
        ("not-sampled", 250_000 / 1_250_000),
    ],
    "price: 420 kept": [("kept", 1)],
    "up to 64 B: 300 before, 300 after": [("before", 1), ("after", 1)],
    "up to 128 B: 120 before, 120 after": [("before", 0.4), ("after", 0.4)],
    "ValueError: price 'n/a' is no decimal: 2 values": [("failed", 1)],
    "KeyError: 'currency': 1 value": [("failed", 0.5)],
    "item.name: 10,000 added": [("added", 1)],
    "name: 10,000 removed": [("removed", 1)],
    "closes \N{RIGHTWARDS ARROW} item.ends: 10,000 renamed": [("renamed", 1)],
    "price: 10 kept, 9,990 changed": [("kept", 0.001), ("changed", 0.999)],
    "seller: 10,000 kept": [("kept", 1)],
    "up to 32 B: 120,000 before, 0 after": [("before", 12 / 70)],
    "up to 64 B: 700,000 before, 640,000 after": [("before", 1), ("after", 64 / 70)],
    "up to 128 B: 179,997 before, 359,990 after": [
        ("before", 179_997 / 700_000),
        ("after", 359_990 / 700_000),
    ],
    "up to 256 B: 0 before, 0 after": [],
    "up to 512 B: 0 before, 7 after": [("after", 7 / 700_000)],
}

CHARTS = """() => [...document.querySelectorAll("svg")].map(svg => {
    const box = element => {
        const {left, top, width, height} = element.getBoundingClientRect();
        return {left, top, width, height};
    };
    const bars = [...svg.querySelectorAll("rect.bar")];
    return {
        label: svg.getAttribute("aria-label"),
        ...box(svg),
        bars: bars.map(bar => ({kind: bar.classList[1], ...box(bar)})),
    };
})"""

# Of each text that is seen: its size, and its contrast with what is behind it.
TEXTS = """() => {
    const channels = color => color.match(/[0-9.]+/g).map(Number);
    const luminance = ([red, green, blue]) => {
        const linear = [red, green, blue].map(part => part / 255).map(
            part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const behind = element => {
        for (let each = element; each; each = each.parentElement) {
            const color = channels(getComputedStyle(each).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !parent.checkVisibility()) continue;
        if (parent.closest("svg")) continue;
        const style = getComputedStyle(parent);
        const [one, other] = [luminance(channels(style.color)), luminance(behind(parent))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        const text = walker.currentNode.data.trim().slice(0, 40);
        found.push({text, size: parseFloat(style.fontSize), contrast});
    }
    return found;
}"""

CLIPPED = """() => [...document.querySelectorAll("main *:not(svg *)")].filter(element => {
    const style = getComputedStyle(element);
    const inline = style.display === "inline";
    const outside = element.getBoundingClientRect().right > innerWidth + 1;
    const hidden = style.overflowX !== "visible" && element.tagName !== "svg";
    return !inline && (outside || hidden);
}).map(element => element.outerHTML.slice(0, 80))"""

REFUSED = """async () => {
    const refused = [];
    document.addEventListener("securitypolicyviolation", event =>
        refused.push(event.effectiveDirective));
    const place = document.createElement("div");
    document.body.append(place);
    place.innerHTML = "<img src='data:,'><p style='color: red' onclick='1'></p>"
        + "<style>p { color: red }</style><iframe src='data:,'></iframe>";
    const script = document.createElement("script");
    script.textContent = "document.title = 'ran'";
    place.append(script);
    await new Promise(done => setTimeout(done, 200));
    return {refused: [...new Set(refused)].sort(), title: document.title};
}"""


@pytest.fixture
def show(browser, tmp_path):
    """Open a report's page from a file; at the end check that it was quiet and loaded nothing."""
    pages = []

    def open_one(report, view, until="load"):
        viewport, media = VIEWS[view]
        file = tmp_path / "dry run.html"
        source = page_of(report)
        file.write_text(source, encoding="utf-8")
        page = browser.new_page(viewport=viewport)
        heard: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("requestfailed", lambda request: heard.append(f"failed: {request.url}"))
        page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: requests.append(request.url))
        page.emulate_media(**media)
        page.goto(file.as_uri(), wait_until=until)
        assert requests == [file.as_uri()]
        assert heard == []
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        page.close()


@pytest.mark.parametrize("view", views("phone"))
@pytest.mark.parametrize("name", REPORTS)
def test_it_fits_is_quiet_and_loads_nothing(show, name, view):
    page = show(REPORTS[name], view, until="networkidle")
    inner, scrolled = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    assert inner == VIEWS[view][0]["width"]
    assert scrolled <= inner
    for chart in page.evaluate(CHARTS):
        assert chart["width"] > 60
        assert chart["height"] >= 10
        assert chart["left"] >= 0
        assert chart["left"] + chart["width"] <= inner


@pytest.mark.parametrize("view", views("phone", "print"))
def test_bars_have_the_widths_the_numbers_ask_for(show, view):
    charts = show(REPORT, view).evaluate(CHARTS)
    assert [chart["label"] for chart in charts] == list(BARS)
    for chart in charts:
        expected = BARS[chart["label"]]
        assert [bar["kind"] for bar in chart["bars"]] == [kind for kind, _ in expected]
        for bar, (_, share) in zip(chart["bars"], expected, strict=True):
            assert bar["width"] == pytest.approx(share * chart["width"], abs=1)
            assert bar["height"] > 0
        # Parts lie side by side, and lanes below each other.
        end, top = chart["left"], chart["top"]
        for bar in chart["bars"]:
            is_next_lane = bar["top"] > top + 1
            assert bar["left"] == pytest.approx(chart["left"] if is_next_lane else end, abs=1)
            end, top = bar["left"] + bar["width"], bar["top"]
            assert end <= chart["left"] + chart["width"] + 1


@pytest.mark.parametrize("view", views("screen", "dark"))
@pytest.mark.parametrize(
    "name", ["ordinary", "nasty", "good", "empty", "fleet", "nasty fleet", "plan", "plans"]
)
def test_all_text_is_readable(show, name, view):
    texts = show(REPORTS[name], view).evaluate(TEXTS)
    assert len(texts) > 20
    assert [text for text in texts if text["size"] < 12] == []
    assert [text for text in texts if text["contrast"] < 4.5] == []


@pytest.mark.parametrize("name", ["ordinary", "nasty"])
def test_nothing_is_cut_on_paper(show, name):
    page = show(REPORTS[name], "print")
    assert page.evaluate(CLIPPED) == []
    black = {"color": "rgb(0, 0, 0)", "background": "rgb(255, 255, 255)"}
    shown = """() => {
        const {color, backgroundColor: background} = getComputedStyle(document.body);
        return {color, background};
    }"""
    assert page.evaluate(shown) == black
    assert page.pdf(format="A4").startswith(b"%PDF-")


def test_tables_are_lists_of_named_cells_on_a_phone_and_nothing_scrolls_sideways(show):
    page = show(REPORT, "phone")
    wide = """() => [...document.querySelectorAll("main *:not(svg *)")]
        .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0)
        .map(each => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(wide) == []
    unnamed = """() => [...document.querySelectorAll("td:not([colspan])")]
        .filter(each => getComputedStyle(each, "::before").content === "none").length"""
    assert page.evaluate(unnamed) == 0
    assert page.evaluate("document.querySelectorAll('td').length") > 20


@pytest.mark.parametrize(("view", "beside"), [("phone", False), ("screen", True)])
def test_whole_values_stand_side_by_side_or_one_below_the_other(show, view, beside):
    sides = show(REPORT, view).locator(".sides figure")
    before, after = (sides.nth(n).bounding_box() for n in range(2))
    assert (before["y"] == after["y"]) is beside
    assert (before["x"] == after["x"]) is not beside


def test_nasty_text_makes_no_element(show):
    page = show(NASTY, "screen")
    assert page.evaluate("document.querySelectorAll('img, script, b, iframe').length") == 0
    assert page.title() == "Dry run of store </script><img src=x onerror=alert(1)>"


def test_the_policy_refuses_what_might_be_slipped_in(show):
    assert show(GOOD, "screen").evaluate(REFUSED) == {
        "refused": [
            "frame-src",
            "img-src",
            "script-src-attr",
            "script-src-elem",
            "style-src-attr",
            "style-src-elem",
        ],
        "title": "Dry run of auctions",
    }
