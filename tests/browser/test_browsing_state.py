"""`browse` in a real browser: its pages work, fit a phone, and run nothing that state holds."""

import http.client
import json
import os
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as fn
from support.file_hashes import file_hashes
from support.sessions import spark, use_folders

import statemigrate
from statemigrate.cli.main import main

__all__ = ["spark"]
pytestmark = [pytest.mark.spark, pytest.mark.long]
use_folders("browser", "spark")

NASTY = (
    "<script>document.title='ran'</script>",
    "<img src=x onerror=document.title='ran'>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "javascript:alert(1)",
    "${7*7}<%7*7%>{{7*7}}",
    "</textarea></title><iframe src=//example.org>",
    "\u202e\x1b[31m\x00 &lt;b&gt;",
)
NAME = "<b>total</b>\"'&"
STORE = "aggregation-0"
VIEWS = {
    "phone": ({"width": 390, "height": 844}, "light"),
    "phone, dark": ({"width": 390, "height": 844}, "dark"),
    "screen": ({"width": 1280, "height": 900}, "light"),
    "screen, dark": ({"width": 1280, "height": 900}, "dark"),
}


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """A query's, whose keys, values and columns are all hostile, after three batches."""
    root = tmp_path_factory.mktemp("browsed")
    place, rows = root / "checkpoint", root / "rows"
    rows.mkdir()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    for batch in range(3):
        keys = [*NASTY[batch:], *(f"key-{n}" for n in range(150))]
        lines = [{"k": key, "v": f"{batch}{NASTY[0]}"} for key in keys]
        (rows / f"{batch}.json").write_text("\n".join(map(json.dumps, lines)))
        stream = spark.readStream.schema("k STRING, v STRING").json(str(rows))
        named = stream.select(fn.col("k").alias(NAME), "v")
        counted = named.groupBy(named[f"`{NAME}`"]).agg(fn.max("v"), fn.count("*"))
        writer = counted.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
        query.awaitTermination()
    return place


@pytest.fixture(scope="module")
def server(checkpoint):
    with statemigrate.browse(checkpoint, migrations=None) as running:
        yield running


@pytest.fixture
def page(browser, server):
    """A page that must stay quiet, and ask nobody but the server."""
    opened = browser.new_page()
    opened.set_default_timeout(8000)
    heard = []
    opened.on("console", lambda message: heard.append(message.text))
    opened.on("pageerror", lambda error: heard.append(str(error)))
    opened.on("dialog", lambda dialog: heard.append(dialog.message))
    opened.on(
        "request",
        lambda request: request.url.startswith(server.url) or heard.append(request.url),
    )
    yield opened
    opened.close()
    assert heard == []


def request(server, path=None, method="GET", **headers):
    """The status, headers and body of what the server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path or urlsplit(server.url).path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read().decode()
    connection.close()
    return found


def follow(page, role, name):
    """Click, and wait until the next page is whole: a click alone returns before its title is."""
    with page.expect_navigation():
        page.get_by_role(role, name=name).click()


def test_a_person_finds_a_key_its_life_and_what_changed(page, server):
    page.goto(server.url)
    follow(page, "link", STORE)
    assert page.locator("section[aria-labelledby=rows] tbody tr").count() == 100
    page.locator("input[name=key]").fill("key-7")
    follow(page, "button", "Search")
    assert page.locator("section[aria-labelledby=rows] tbody tr").count() == 1
    life = page.locator("section[aria-labelledby=life] tbody tr")
    assert [row.split()[:2] for row in life.all_inner_texts()] == [
        ["0", "first"],
        ["1", "changed"],
        ["2", "changed"],
    ]
    page.locator("input[name=before]").fill("0")
    follow(page, "button", "Compare")
    assert "157 changed" in page.locator("section[aria-labelledby=difference]").inner_text()


@pytest.mark.parametrize("word", NASTY)
def test_hostile_keys_are_text_and_are_found(page, server, word):
    page.goto(server.url)
    follow(page, "link", STORE)
    page.locator("input[name=key]").evaluate("(input, value) => { input.value = value; }", word)
    follow(page, "button", "Search")
    assert page.title() == STORE
    assert page.evaluate("document.querySelectorAll('script, img, iframe, b').length") == 0
    if "\x00" not in word:
        assert page.locator("section[aria-labelledby=rows] tbody tr").count() == 1


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("place", ["", "store", "key", "diff"])
def test_pages_fit_phones_and_screens(page, server, view, place):
    size, scheme = VIEWS[view]
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    addresses = {
        "": "",
        "store": f"store?name={STORE}",
        "key": f"store?name={STORE}&key=key-7",
        "diff": f"diff?name={STORE}&before=0&batch=2",
    }
    page.goto(server.url + addresses[place])
    for each in page.locator("details").all():
        each.evaluate("element => { element.open = true; }")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{place or 'overview'} {view}.png".replace(" ", "-"))
    inner, scrolled = page.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    assert scrolled <= inner == size["width"]


def test_only_those_with_the_token_and_the_right_host_are_answered(server):
    path = urlsplit(server.url).path
    assert request(server)[0] == 200
    assert request(server, "/")[0] == 404
    assert request(server, path.replace(path[1:5], "xxxx"))[0] == 404
    assert STORE not in request(server, "/")[2]
    for host in ("example.org", f"example.org:{server.port}", "127.0.0.1", ""):
        status, _, body = request(server, Host=host)
        assert status == 421
        assert STORE not in body
    assert request(server, Host=f"localhost:{server.port}")[0] == 200
    assert server._server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_nothing_but_reading_is_answered(server, method):
    assert request(server, method=method)[0] == 501


def test_every_answer_has_a_policy_under_which_nothing_runs(server):
    status, headers, _ = request(server)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert status == 200


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("nothing", 404, "no such page"),
        ("store?name=nothing", 400, "SM-STATE-033"),
        ("store", 400, "not understood"),
        ("store?name=a&name=b", 400, "not understood"),
        (f"store?name={STORE}&batch=x", 400, "not understood"),
        (f"store?name={STORE}&batch=999", 400, "SM-"),
        (f"store?name={STORE}&key=a&key=b", 400, "SM-VALUE-012"),
        (f"diff?name={STORE}&before=999", 400, "SM-"),
        ("../../etc/passwd", 404, "no such page"),
    ],
)
def test_what_is_not_there_is_named(server, query, status, text):
    found, _, body = request(server, urlsplit(server.url).path + query)
    assert (found, text in body) == (status, True)


def test_looking_writes_nothing_to_the_checkpoint(server, checkpoint):
    before = file_hashes(checkpoint)
    for query in ("", f"store?name={STORE}&key=key-1", f"diff?name={STORE}&before=0"):
        assert request(server, urlsplit(server.url).path + query)[0] == 200
    assert file_hashes(checkpoint) == before


def test_the_exported_page_is_one_file_without_links(browser, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["browse", str(checkpoint), "--export", "state.html"])
    assert done.exit_code == 0, done.output
    page = browser.new_page()
    requests = []
    page.on("request", lambda each: requests.append(each.url))
    page.goto((tmp_path / "state.html").as_uri(), wait_until="networkidle")
    assert len(requests) == 1
    assert page.evaluate("document.querySelectorAll('a, form, script, img, b').length") == 0
    assert page.get_by_text("key-1", exact=True).count() > 0
    page.close()


def test_hidden_and_masked_values_are_on_no_page(checkpoint, monkeypatch):
    def pages(**options):
        with statemigrate.browse(checkpoint, migrations=None, **options) as running:
            path = urlsplit(running.url).path
            queries = ("", f"store?name={STORE}", f"diff?name={STORE}&before=0")
            return "".join(request(running, path + each)[2] for each in queries)

    assert "key-1" in pages()
    masked = pages(mask=[NAME])
    assert "key-1" not in masked
    assert "document.title" in masked
    monkeypatch.setenv("STATEMIGRATE_NO_VALUES", "1")
    hidden = pages()
    assert "key-1" not in hidden
    assert "document.title" not in hidden
