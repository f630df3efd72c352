"""The site builds without a warning, and is read without a network."""

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import click
import pytest
from support.pages import DOCS, TOP, all_pages

from statemigrate.cli import main

pytestmark = pytest.mark.long
VIEWS = {
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"},
    "screen": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=TOP,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site):
    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *arguments):
        pass


def text_of(page: Path) -> str:
    html = page.read_text()
    article = html[html.index("<article") : html.index("</article>")]
    joined = re.sub(r"</?(?:code|a|em|strong|span)\b[^>]*>", "", article)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", joined)).split())


def commands() -> dict[str, click.Command]:
    context = click.Context(main)
    return {name: main.get_command(context, name) for name in main.list_commands(context)}


def test_every_page_is_built_and_loads_nothing_from_elsewhere(site):
    for page in all_pages():
        html = (site / page.name).with_suffix(".html").read_text()
        assert LOADED.findall(html) == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"""(?:url\(|@import )["']?https?:[^)]*""", styles) == []
    assert not (site / "hooks").exists()


def test_every_command_and_every_option_is_in_the_reference(site):
    text = text_of(site / "reference" / "command-line.html")
    assert len(commands()) >= 15
    for name, command in commands().items():
        # To the sign behind the next heading.
        part = text.partition(f" {name}¶")[2].partition("¶")[0]
        for option in command.params:
            if isinstance(option, click.Option) and option.name not in {
                "migrations",
                "json",
                "debug",
                "values",
            }:
                assert all(each in part for each in option.opts), f"{name} {option.opts}"
                assert " ".join((option.help or "").replace("`", "").split()) in part, option.help
        assert " ".join((command.epilog or "").removeprefix("Example: ").split()) in part
    for shared in ("--migrations", "--json", "--debug", "--values", "--version"):
        assert shared in text


def test_every_example_of_the_reference_is_well_formed():
    for name, command in commands().items():
        program, verb, *words = shlex.split((command.epilog or "").removeprefix("Example: "))
        assert (program, verb) == ("statemigrate", name)
        command.make_context(name, words, parent=click.Context(main))


def test_what_a_page_links_to_in_the_repository_is_in_the_site(site):
    links = re.findall(r"\]\((\.\./[^)#]+)", (DOCS / "guarantees.md").read_text())
    assert len(set(links)) > 20
    for link in links:
        path = link.removeprefix("../")
        shown = text_of(site / "source" / f"{path.removesuffix('.md')}.html")
        first = (TOP / path).read_text().splitlines()[0].strip('"')
        assert first in shown


@pytest.mark.long
@pytest.mark.parametrize("view", ["phone", "screen", "dark"])
def test_every_page_fits_is_quiet_and_asks_only_its_own_server(browser, address, view):
    page = browser.new_page(**VIEWS[view])
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url))
    for name in (page.name.removesuffix(".md") for page in all_pages()):
        page.goto(f"{address}{name}.html")
        inner, scrolled = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
        assert scrolled <= inner, name
    assert [each for each in heard if not each.startswith((address, "data:"))] == []
    page.close()


def test_the_search_finds_a_word(browser, address):
    page = browser.new_page()
    page.goto(f"{address}index.html", wait_until="networkidle")
    page.keyboard.press("/")
    page.keyboard.type("quarantine")
    page.wait_for_selector(".md-search-result__item")
    found = page.eval_on_selector_all(".md-search-result__link", "all => all.map(a => a.href)")
    assert any("quarantine.html" in link for link in found)
    page.close()
