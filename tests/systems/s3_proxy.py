"""A proxy before an S3 server that fails as a real one does, as often as it is told.

Whoever holds an `S3Proxy` may change its `Faults` while it runs, and read every request that came.
From elsewhere ``curl -X PUT -d '{"slow_down": 0.1}' ENDPOINT/-/faults`` changes them, and
``curl ENDPOINT/-/requests`` has how many requests of each verb there were.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from systems.s3 import S3

_PATIENCE = 60.0  # seconds
_CONTROL = "/-/"
_NOT_PASSED_ON = {"connection", "expect", "host", "transfer-encoding", "content-length"}
_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
_STATUSES = {"SlowDown": 503, "ExpiredToken": 403}
_WRITING = ("put", "create", "copy", "complete", "part")


@dataclass(frozen=True)
class Faults:
    """How likely each fault is for one request, between 0 and 1.

    ``delay``: the answer comes up to ``delay_seconds`` later. ``slow_down``: 503 SlowDown, nothing
    is done. ``drop_before`` and ``drop_after``: the connection ends without an answer, before or
    after the server did what it was asked. ``cut``: it ends in the middle of what is read.
    ``stale``: a listing tells what was there ``lag`` seconds ago, of keys that match ``stale_keys``
    (Spark's own logs need listings that are right). ``expired``: all answers are 403 ExpiredToken.
    """

    seed: int = 0
    delay: float = 0.0
    delay_seconds: float = 0.3
    slow_down: float = 0.0
    drop_before: float = 0.0
    drop_after: float = 0.0
    cut: float = 0.0
    stale: float = 0.0
    lag: float = 5.0
    stale_keys: str = "/statemigrate/"
    expired: bool = False


@dataclass(frozen=True)
class Request:
    """One that came: what it asked for, what it was answered (0: nothing), and the fault it met."""

    verb: str
    key: str
    status: int
    fault: str | None
    at: float


@dataclass
class _Version:
    """What was put under a key, or nothing once it was deleted, and when."""

    at: float
    size: int = 0
    tag: str | None = None


@dataclass
class S3Proxy:
    """Started with its construction before the server at ``upstream``, an ``http://host:port``."""

    upstream: str
    faults: Faults = field(default_factory=Faults)
    requests: list[Request] = field(default_factory=list)
    _versions: dict[str, list[_Version]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.switch(self.faults)
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def switch(self, faults: Faults | None = None) -> None:
        """Have other faults from the next request on; none where none are given."""
        with self._lock:
            self.faults = faults or Faults()
            self._chance = random.Random(self.faults.seed)

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """The requests made within the block by verb, filled in at its end."""
        counts: Counter[str] = Counter()
        before = len(self.requests)
        yield counts
        counts.update(each.verb for each in self.requests[before:])

    @property
    def injected(self) -> Counter[str]:
        """How many faults of each kind there were."""
        return Counter(each.fault for each in self.requests if each.fault is not None)

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def draw(self, verb: str) -> tuple[Faults, str | None, float]:
        """The faults of now, the one that a request meets, and by how many seconds it is late."""
        with self._lock:
            faults, chance = self.faults, self._chance.random
            late = chance() * faults.delay_seconds if chance() < faults.delay else 0.0
            drawn = chance()
        if faults.expired:
            return faults, "expired", late
        kinds = ["slow_down", "drop_before", "drop_after"]
        kinds += {"get": ["cut"], "list": ["stale"]}.get(verb, [])
        for kind in kinds:
            drawn -= getattr(faults, kind)
            if drawn < 0:
                return faults, kind, late
        return faults, "delay" if late else None, late

    def note(self, verb: str, key: str, status: int, fault: str | None) -> None:
        """Remember a request."""
        with self._lock:
            self.requests.append(Request(verb, key, status, fault, time.time()))

    def changed(self, key: str, size: int, tag: str | None) -> None:
        """Remember that a key has a new content, or, without a tag, none any more."""
        with self._lock:
            self._versions.setdefault(key, []).append(_Version(time.time(), size, tag))

    def listed_before(self, bucket: str, query: dict[str, str], faults: Faults) -> bytes | None:
        """A listing as it was a while ago; None where it is not known or goes over pages."""
        prefix, after = query.get("prefix", ""), query.get("start-after", "")
        if "continuation-token" in query or not re.search(faults.stale_keys, f"/{prefix}"):
            return None
        with self._lock:
            known = {key: list(versions) for key, versions in self._versions.items()}
        moment, found, folders = time.time() - faults.lag, [], set()
        for key, versions in sorted(known.items()):
            name = key.removeprefix(f"{bucket}/")
            then = [each for each in versions if each.at <= moment]
            if name == key or not name.startswith(prefix) or name <= after:
                continue
            if not then or then[-1].tag is None:
                continue
            inner, slash, _ = name.removeprefix(prefix).partition(query.get("delimiter") or "\0")
            if slash:
                folders.add(f"{prefix}{inner}{slash}")
            else:
                found.append((name, then[-1]))
        if len(found) + len(folders) > int(query.get("max-keys", "1000")):
            return None
        return _listing(bucket, prefix, found, sorted(folders)).encode()


@dataclass
class FaultyS3:
    """`S3` behind an `S3Proxy`, started in ``folder``."""

    folder: Path

    def __post_init__(self) -> None:
        self._server = S3(self.folder)
        self.proxy = S3Proxy(self._server.endpoint)
        self.uri, self.jars = self._server.uri, self._server.jars
        endpoint = {"spark.hadoop.fs.s3a.endpoint": self.proxy.endpoint}
        self.conf = {**self._server.conf, **endpoint}

    def stop(self) -> None:
        """End both."""
        self.proxy.stop()
        self._server.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """A client that was killed does not wait for its answer."""


class _Handler(BaseHTTPRequestHandler):
    proxy: S3Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """The requests are kept; nothing is printed."""

    def _answer(self) -> None:
        if self.path.startswith(_CONTROL):
            return self._control(self._body())
        parts = urlsplit(self.path)
        key, query = unquote(parts.path).lstrip("/"), dict(parse_qsl(parts.query, True))
        body = self._body()
        verb = _verb(self.command, query, self.headers)
        faults, fault, late = self.proxy.draw(verb)
        time.sleep(late)
        code = {"slow_down": "SlowDown", "expired": "ExpiredToken"}.get(fault or "")
        if code is not None:
            text = _ERROR.format(code=code, message="the proxy says so").encode()
            self.proxy.note(verb, key, _STATUSES[code], fault)
            return self._send(_STATUSES[code], [("Content-Type", "application/xml")], text)
        if fault == "drop_before":
            self.proxy.note(verb, key, 0, fault)
            return self._drop()
        status, headers, content = self._passed_on(body)
        self._remember(verb, key, status, headers, body)
        if fault == "stale":
            content_then = self.proxy.listed_before(key.strip("/"), query, faults)
            fault, content = ("stale", content_then) if content_then else (None, content)
        if fault == "cut" and (status not in (200, 206) or len(content) < 2):
            fault = None
        self.proxy.note(verb, key, 0 if fault == "drop_after" else status, fault)
        if fault == "drop_after":
            return self._drop()
        return self._send(status, headers, content, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names it calls

    def _control(self, body: bytes) -> None:
        if self.command == "PUT":
            self.proxy.switch(Faults(**json.loads(body)))
        counts = Counter(each.verb for each in self.proxy.requests)
        told = {"faults": asdict(self.proxy.faults), "requests": counts}
        told["injected"] = self.proxy.injected
        self._send(200, [("Content-Type", "application/json")], json.dumps(told).encode())

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _passed_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = urlsplit(self.proxy.upstream)
        asked = http.client.HTTPConnection(server.hostname or "", server.port, timeout=_PATIENCE)
        try:
            kept = [each for each in self.headers.items() if each[0].lower() not in _NOT_PASSED_ON]
            headers = {"Host": server.netloc, **dict(kept), "Content-Length": str(len(body))}
            asked.request(self.command, self.path, body, headers)
            answer = asked.getresponse()
            content = answer.read()
            passed = [
                (name, value)
                for name, value in answer.getheaders()
                if name.lower() not in ("connection", "transfer-encoding", "date", "server")
                and (name.lower() != "content-length" or self.command == "HEAD")
            ]
            return answer.status, passed, content
        finally:
            asked.close()

    def _remember(
        self, verb: str, key: str, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        if status >= 300:
            return
        tags = {name.lower(): value for name, value in headers}
        if verb == "delete":
            self.proxy.changed(key, 0, None)
        elif verb == "delete many":
            for name in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.proxy.changed(f"{key.strip('/')}/{name}", 0, None)
        elif verb in _WRITING and verb != "part":
            size = int(self.headers.get("x-amz-decoded-content-length", len(body)))
            self.proxy.changed(key, size, tags.get("etag", '"none"'))

    def _send(
        self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" or not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            self.close_connection = True

    def _drop(self) -> None:
        """End the connection at once, as a machine in between does that is restarted."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.shutdown(socket.SHUT_RDWR)


def _verb(method: str, query: dict[str, str], headers: Any) -> str:
    """What a request asks for, in a word."""
    special = {
        "GET": [("list", "list-type" in query or "prefix" in query), ("get", True)],
        "PUT": [
            ("part", "uploadId" in query),
            ("copy", "x-amz-copy-source" in headers),
            ("create", "If-None-Match" in headers),
        ],
        "POST": [
            ("delete many", "delete" in query),
            ("complete", "uploadId" in query),
            ("begin", True),
        ],
    }
    return next((verb for verb, is_it in special.get(method, []) if is_it), method.lower())


def _listing(
    bucket: str, prefix: str, found: list[tuple[str, _Version]], folders: list[str]
) -> str:
    contents = "".join(
        f"<Contents><Key>{escape(name)}</Key><LastModified>{_iso(each.at)}</LastModified>"
        f"<ETag>{escape(each.tag or '')}</ETag><Size>{each.size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
        for name, each in found
    )
    common = "".join(
        f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
        f"<KeyCount>{len(found) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        f"{contents}{common}</ListBucketResult>"
    )


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
