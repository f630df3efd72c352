"""The page of a status says what the status does, and nothing on it acts."""

import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from support import checkpoints
from support.dry_runs import LONG_KEY, TAG
from support.fleets import AUCTIONS, FINISHED, FLEET, NASTY_FLEET

from statemigrate import Fleet, status_page
from statemigrate.cli import main


class Page(HTMLParser):
    """The elements, and the text that is seen."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.parts, self._hidden = [], [], False
        self.feed(source)
        self.close()
        self.text = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._hidden = tag in ("style", "title")

    def handle_endtag(self, tag):
        self._hidden = False

    def handle_data(self, data):
        if not self._hidden:
            self.parts.append(data)


def test_a_fleet_has_its_sum_first_and_a_part_for_each_checkpoint():
    text = Page(status_page(FLEET)).text
    assert text.startswith(
        "statemigrate status 3 checkpoints 812,081 values left to migrate in 2 of 2 checkpoints. "
        "1 checkpoint cannot be read. 1 cannot be read, 1 is stuck, 1 is migrating. "
        "gone cannot be read sessions 77 left, stuck auctions 812,004 left What is next "
        "1 store: statemigrate dry-run tags"
    )
    assert "Committed 2023-11-14 22:13:08 UTC, 12 s earlier" in text
    assert "187,996 migrated, 812,004 left" in text
    assert "1,204.0 values a second over 1 min 0 s, 11 min 14 s left." in text
    assert "tags list state, target base , the head is a1b2c3d4e5f6 tags 77 left" in text
    assert "77 left, 12 failed" in text
    assert "Nothing moved." in text
    assert "Next: " not in text
    gone = text.split("gone nowhere is not")[1]
    assert "Found no such directory Next name the directory" in gone


def test_one_checkpoint_has_its_own_page():
    text = Page(status_page(AUCTIONS)).text
    assert text.startswith(
        "statemigrate status s3a://bucket/checkpoints/auctions 812,004 values left to migrate. "
        "Reads look into the older stores as well."
    )
    assert re.search(r"Made \d{4}-\d\d-\d\d [0-9:]{8} UTC by statemigrate \d", text)
    assert (
        "Nothing is left. Every value has its target's format." in Page(status_page(FINISHED)).text
    )


def test_what_was_not_seen_is_not_called_empty():
    text = Page(status_page(Fleet(FLEET.looks[2:]))).text
    assert "Every value has" not in text
    assert "All readable checkpoints are migrated. 1 checkpoint cannot be read." in text


def test_nasty_names_are_text():
    source = status_page(NASTY_FLEET)
    page = Page(source)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "b", "iframe"}
    assert f"store {TAG}" in page.text
    assert LONG_KEY in page.text
    for hidden in ("\x1b", "\x07", "\u202e", "\x00"):
        assert hidden not in source
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
    assert not [tag for tag, attributes in page.elements if "src" in attributes]
    (policy,) = [a["content"] for _, a in page.elements if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_the_verb_writes_it_beside_what_it_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints.scripts(tmp_path)
    checkpoints.items(tmp_path, 10)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.statemigrate]\ncheckpoints = {gone = "nowhere", shop = "checkpoint"}\n'
    )

    def run(*words, code):
        done = CliRunner().invoke(main, ["status", *words, "--html", "page.html"])
        assert done.exit_code == code, done.output
        assert sorted(path.name for path in tmp_path.glob("*.html*")) == ["page.html"]
        return Page((tmp_path / "page.html").read_text()).text

    assert "Behind its scripts: the newest are not deployed." in run("shop", code=0)
    assert "Nothing is left. Every value" in run("shop", "--target", "items=base", code=0)
    assert "gone nowhere is not the checkpoint" in run("--all", code=1)
    assert "no store" not in run("shop", "--json", code=0)
    refused = CliRunner().invoke(main, ["status", "shop", "--html", "no/where.html"])
    assert refused.exit_code == 2
    assert "there is no directory no" in refused.stderr
    with pytest.raises(AssertionError):
        run("nowhere", code=0)
    assert "Status of" in (tmp_path / "page.html").read_text()
