"""The page of a plan: what it shows, in which order, and that no name becomes markup."""

from html.parser import HTMLParser

from support.dry_runs import TAG
from support.plans import NASTY_PLANS, PLAN, READY

from statemigrate import plan_of_all, plan_page
from statemigrate.configuration import NamedCheckpoint


class Shown(HTMLParser):
    """The texts and the elements of a page."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.elements, self.classes = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.classes += [value for name, value in attrs if name == "class"]

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip())


def test_a_page_has_each_item_with_its_verdict_each_step_and_the_way_back():
    shown = Shown(plan_page(PLAN))
    text = " ".join(shown.texts)
    for item in PLAN.items:
        assert item.name in text
        assert item.text in text
    assert "Spark will not notice" in text
    assert PLAN.steps[1].command in shown.texts
    assert "about 10 s" in text
    assert PLAN.undo in text
    assert "verdict doubtful" in shown.classes


def test_a_plan_that_asks_for_nothing_is_good():
    shown = Shown(plan_page(READY))
    assert "verdict good" in shown.classes
    assert "grade doubtful" not in shown.classes


def test_names_stay_text_and_what_has_no_plan_comes_first():
    page = plan_page(NASTY_PLANS)
    shown = Shown(page)
    assert set(shown.elements) <= {
        *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "p"),
        *("h1", "h2", "h3", "bdi", "div", "ul", "li", "a", "span", "dl", "dt", "dd", "code"),
        "strong",
    }
    assert TAG in "".join(shown.texts)
    assert "verdict bad" in shown.classes
    assert [each.checkpoint.name for each in NASTY_PLANS.by_need] == ["gone", TAG, "orders"]


def test_a_checkpoint_that_cannot_be_read_hides_no_other(tmp_path):
    names = [NamedCheckpoint(name, str(tmp_path / name)) for name in ("one", "two")]
    found = plan_of_all(names, migrations=None)
    assert [each.checkpoint for each in found.plans] == names
    assert all(each.plan is None and each.error.code for each in found.plans)
    assert found.asks
