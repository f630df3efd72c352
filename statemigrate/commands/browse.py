"""`browse`: a server on this machine alone that shows the state of a checkpoint in a browser."""

from __future__ import annotations

import hmac
import secrets
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from statemigrate.commands.browse_pages import Browsing
from statemigrate.errors import StatemigrateError
from statemigrate.formats import Mask
from statemigrate.inspect import policy_of
from statemigrate.native import looks_again, retried
from statemigrate.quoting import html_text
from statemigrate.state import Project, StateTables, require_masked

if TYPE_CHECKING:
    from statemigrate.native import Spark

StateAt = Callable[[int | None], StateTables]
"""The state at a batch, the newest for None; opened anew each time."""
_LOOPBACK = "127.0.0.1"
_SECONDS = 30
"""How long a connection may say nothing."""


def browse(  # noqa: PLR0913 - all but one by name
    checkpoint: str | Path,
    *,
    port: int = 0,
    open_page: bool = False,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    spark: Spark = None,
) -> BrowseServer:
    """Serve pages with the state of a checkpoint to the browsers of this machine.

    The server runs in a thread until it is closed, as at the end of a ``with`` block. Its ``url``
    has a random token, without which it answers nothing. It only reads, and the query may be
    running. ``port`` is a free one unless given, and ``open_page`` opens the page in the user's
    browser. The other parameters are those of `open_state`, which is called for each page. Raises
    as `open_state`, and OSError where the port is taken.
    """
    project = Project(migrations, dict(targets or {}), stores or {}, spark, operator)

    def opened(batch: int | None) -> StateTables:
        return StateTables(str(checkpoint), project, batch, Mask.of(mask), "null")

    require_masked(opened(None))
    server = BrowseServer(str(checkpoint), opened, port)
    if open_page:
        server.open_page()
    return server


@looks_again
def browse_page(
    checkpoint: str | Path,
    *,
    batch: int | None = None,
    migrations: str | Path | None = "migrations",
    targets: Mapping[str, str] | None = None,
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    mask: Sequence[str] = (),
    spark: Spark = None,
) -> str:
    """The state of a checkpoint as one HTML page, without scripts and without links.

    It has the stores with their sizes and revisions, the first rows of each, and what changed in
    the newest batch. The parameters and errors are those of `open_state`.
    """
    project = Project(migrations, dict(targets or {}), stores or {}, spark, operator)
    state = StateTables(str(checkpoint), project, batch, Mask.of(mask), "null")
    require_masked(state)
    return Browsing(None).whole(state)


class BrowseServer:
    """A server that shows a checkpoint's state at its ``url``; see `browse`."""

    def __init__(self, checkpoint: str, state: StateAt, port: int) -> None:
        self._token = secrets.token_urlsafe(32)
        self._pages = _Pages(checkpoint, state, f"/{self._token}/")
        self._server = ThreadingHTTPServer((_LOOPBACK, port), self._handler())
        self._server.daemon_threads = True
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of its first page."""
        return f"http://{_LOOPBACK}:{self.port}/{self._token}/"

    def open_page(self) -> None:
        """Open the first page in the user's browser.

        The browser is started with a file that only the user can read, because every user of the
        machine sees the arguments of a program.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="statemigrate-")
        file = Path(self._folder.name) / "open.html"
        file.write_text(
            '<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={html_text(self.url)}">',
            encoding="utf-8",
        )
        webbrowser.open(file.as_uri())

    def wait(self) -> None:
        """Wait until it is closed."""
        while self._thread.is_alive():
            self._thread.join(1)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pages, token, server = self._pages, self._token, self

        class Handler(_Handler):
            def answer(self) -> tuple[HTTPStatus, str]:
                port = server.port
                # Another name that leads here is one that a page elsewhere has made up.
                if self.headers.get_all("Host", []) not in (
                    [f"{_LOOPBACK}:{port}"],
                    [f"localhost:{port}"],
                ):
                    return HTTPStatus.MISDIRECTED_REQUEST, _PLAIN.failed("Another host is meant.")
                parts = urlsplit(self.path)
                given, _, page = parts.path.removeprefix("/").partition("/")
                if not hmac.compare_digest(given.encode(), token.encode()):
                    return HTTPStatus.NOT_FOUND, _PLAIN.failed("There is no such page.")
                return pages.page(page, parse_qs(parts.query, keep_blank_values=True))

        return Handler


_PLAIN = Browsing(None)
"""Pages for those who do not know the token: they have no links."""


class _Pages:
    """The pages of a checkpoint by their names; one is made at a time."""

    def __init__(self, checkpoint: str, state: StateAt, root: str) -> None:
        self._checkpoint = checkpoint
        self._state_at = state
        self._browsing = Browsing(root)
        self._lock = threading.Lock()

    def page(self, name: str, query: Mapping[str, list[str]]) -> tuple[HTTPStatus, str]:
        """A page, and its status."""
        try:
            with self._lock:
                found = retried(lambda: self._made(name, query), self._checkpoint)
        except StatemigrateError as error:
            return HTTPStatus.BAD_REQUEST, self._browsing.failed("", error)
        except ValueError:
            return HTTPStatus.BAD_REQUEST, self._browsing.failed("The address is not understood.")
        except Exception as error:
            text = f"This cannot be shown: {type(error).__name__}."
            return HTTPStatus.INTERNAL_SERVER_ERROR, self._browsing.failed(text)
        if found is None:
            return HTTPStatus.NOT_FOUND, self._browsing.failed("There is no such page.")
        return HTTPStatus.OK, found

    def _made(self, name: str, query: Mapping[str, list[str]]) -> str | None:
        if name == "":
            return self._browsing.overview(self._state(query))
        if name == "store":
            state = self._state(query)
            return self._browsing.store(state, _one(query, "name"), query.get("key", []))
        if name == "diff":
            before = int(_one(query, "before"))
            return self._browsing.difference(self._state(query), _one(query, "name"), before)
        return None

    def _state(self, query: Mapping[str, list[str]]) -> StateTables:
        batch = int(_one(query, "batch")) if "batch" in query else None
        return self._state_at(batch)


def _one(query: Mapping[str, list[str]], name: str) -> str:
    values = query.get(name, [])
    if len(values) != 1:
        raise ValueError(name)
    return values[0]


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with a page that runs nothing, and refuses everything else."""

    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def answer(self) -> tuple[HTTPStatus, str]:
        """The status and the page."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Answer without the page."""
        self._send(with_body=False)

    def version_string(self) -> str:
        """What the server calls itself."""
        return "statemigrate"

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: addresses have the token, and keys of state."""

    def end_headers(self) -> None:
        """Add what holds for every answer."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        super().end_headers()

    def _send(self, *, with_body: bool) -> None:
        status, page = self.answer()
        body = page.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        policy = f"{policy_of(forms=True)}; frame-ancestors 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        if with_body:
            self.wfile.write(body)
