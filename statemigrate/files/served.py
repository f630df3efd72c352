"""The driver's way to files, lent to the Python process that Spark starts next to the driver.

That process plans a query, and has neither the session nor its settings. It asks the driver through
a socket in a directory that only this user can enter; nothing is pickled.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from statemigrate.errors import StatemigrateError, StorageError
from statemigrate.files.protocol import LARGEST, FileEntry, Files

_VERBS = frozenset(
    "get fetch put create replace list find delete delete_folder".split()  # noqa: SIM905
)
_SHORT = ("/tmp", "/var/tmp")  # noqa: S108 - a directory of its own is made in there
_OPENING = threading.Lock()
_ways: dict[str, _Way] = {}
_BUILT_IN = {each.__name__: each for each in (FileNotFoundError, FileExistsError, ValueError)}


@dataclass(frozen=True)
class ServedFiles:
    """`Files` below ``location`` that the driver of this machine reaches at ``address``."""

    location: str
    address: str
    token: bytes

    def get(self, name: str, *, most: int = LARGEST) -> bytes:
        """As `Files.get`."""
        content: bytes = self._ask("get", name, most=most)[1]
        return content

    def fetch(
        self, name: str, target: Path, *, most: int, shared: bool = False, cut: bool = False
    ) -> None:
        """As `Files.fetch`: the driver writes the file, which is of the same machine."""
        self._ask("fetch", name, target=str(target), most=most, shared=shared, cut=cut)

    def put(self, name: str, data: bytes | Path) -> None:
        """As `Files.put`."""
        self._ask("put", name, data=data.read_bytes() if isinstance(data, Path) else data)

    def create(self, name: str, data: bytes) -> None:
        """As `Files.create`."""
        self._ask("create", name, data=data)

    def replace(self, name: str, data: bytes, *, like: str | None = None) -> None:
        """As `Files.replace`."""
        self._ask("replace", name, data=data, like=like)

    def list(self, folder: str = "", *, recursive: bool = False) -> tuple[FileEntry, ...]:
        """As `Files.list`."""
        found, _ = self._ask("list", folder, recursive=recursive)
        return tuple(FileEntry(**each) for each in found)

    def find(self, name: str = "") -> FileEntry | None:
        """As `Files.find`."""
        found, _ = self._ask("find", name)
        return None if found is None else FileEntry(**found)

    def delete(self, names: Iterable[str]) -> None:
        """As `Files.delete`."""
        self._ask("delete", list(names))

    def delete_folder(self, folder: str) -> None:
        """As `Files.delete_folder`."""
        self._ask("delete_folder", folder)

    def _ask(self, verb: str, *names: Any, data: bytes | None = None, **how: Any) -> Any:
        head = {"verb": verb, "names": names, "how": how, "has_data": data is not None}
        try:
            with Client(self.address, "AF_UNIX", authkey=self.token) as connection:
                connection.send_bytes(json.dumps(head).encode())
                if data is not None:
                    connection.send_bytes(data)
                answer = json.loads(connection.recv_bytes())
                content = connection.recv_bytes() if answer.get("has_data") else b""
        except (OSError, EOFError, AuthenticationError) as error:
            raise self._gone(error) from error
        if "error" in answer:
            raise StatemigrateError.from_json(answer["error"])
        if "built_in" in answer:
            raise _BUILT_IN[answer["built_in"]](*answer["parts"])
        return answer["found"], content

    def _gone(self, error: Exception) -> StorageError:
        return StorageError(
            "SM-STORAGE-016",
            f"the driver's way to {self.location} is gone",
            expected="the process that made the processor, on the same machine",
            found=str(error) or type(error).__name__,
            next_action="start the query from the process in which migrated was called",
            path=self.location,
        )


def served(files: Files) -> ServedFiles:
    """Access to the same files for another process, as long as this one lives."""
    with _OPENING:
        way = _ways.get(files.location)
        if way is None or way.process != os.getpid():
            way = _ways[files.location] = _Way(files)
        # The session that they were reached by first may have been stopped.
        way.files = files
    return way.lent


class _Way:
    """A socket in a directory of its own, which goes when the process ends."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.process = os.getpid()
        token = secrets.token_bytes(32)
        self._directory, self._listener = _listen(files, token)
        self.lent = ServedFiles(files.location, f"{self._directory}/socket", token)
        self._is_open = True
        atexit.register(self._close)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._is_open:
            # Who does not know the token is refused, and others are served on.
            with suppress(OSError, EOFError, AuthenticationError):
                connection = self._listener.accept()
                answer = threading.Thread(
                    target=_answer, args=(connection, self.files), daemon=True
                )
                answer.start()

    def _close(self) -> None:
        if self.process == os.getpid():
            self._is_open = False
            self._listener.close()
            shutil.rmtree(self._directory, ignore_errors=True)


def _listen(files: Files, token: bytes) -> tuple[str, Listener]:
    """A new directory for this user alone, and what listens at ``socket`` in it.

    The path of a socket has some hundred bytes, and a file system need not have sockets at all: the
    temporary directory comes first, then those that every machine has.
    """
    found = []
    for parent in _parents():
        try:
            return _listening(parent, token)
        except OSError as error:
            found.append(f"{parent}: {error}")
    raise StorageError(
        "SM-STORAGE-017",
        f"the driver has no directory for a socket, by which Spark's planner reaches "
        f"{files.location}",
        expected="a directory that this user may write, with a path of at most 60 bytes",
        found="; ".join(found),
        next_action="set TMPDIR to such a directory where the query is started, and start it again",
        path=files.location,
    )


def socket_parent() -> tuple[str | None, tuple[str, ...]]:
    """The directory in which such a socket can be made now, and what those before it say.

    None where it can be in none; one is made for it, and removed.
    """
    failures: list[str] = []
    for parent in _parents():
        try:
            directory, listener = _listening(parent, b"")
        except OSError as error:
            failures.append(f"{parent}: {error}")
            continue
        listener.close()
        shutil.rmtree(directory, ignore_errors=True)
        return parent, tuple(failures)
    return None, tuple(failures)


def _parents() -> dict[str, None]:
    return dict.fromkeys((tempfile.gettempdir(), *_SHORT, *_session_directory()))


def _listening(parent: str, token: bytes) -> tuple[str, Listener]:
    directory = tempfile.mkdtemp(prefix="statemigrate-files-", dir=parent)
    try:
        return directory, Listener(f"{directory}/socket", "AF_UNIX", backlog=16, authkey=token)
    except OSError:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _session_directory() -> list[str]:
    # Removed when the user logs out, so it comes last.
    return [each for each in [os.environ.get("XDG_RUNTIME_DIR", "")] if each]


def _answer(connection: Connection, files: Files) -> None:
    with connection, suppress(OSError, EOFError):
        head = json.loads(connection.recv_bytes())
        data = [connection.recv_bytes()] if head["has_data"] else []
        try:
            found = _done(files, head, data)
        except StatemigrateError as error:
            answer: dict[str, Any] = {"error": error.to_json()}
        except tuple(_BUILT_IN.values()) as error:
            answer = {"built_in": type(error).__name__, "parts": error.args}
        except Exception as error:
            # The client that asked gets the error; here there is none.
            answer = {"error": _failed(files, head["verb"], error).to_json()}
        else:
            is_data = isinstance(found, bytes)
            answer = {"found": None if is_data else _plain(found), "has_data": is_data}
            data = [found] if is_data else []
        connection.send_bytes(json.dumps(answer).encode())
        if answer.get("has_data"):
            connection.send_bytes(data[0])


def _failed(files: Files, verb: str, error: Exception) -> StorageError:
    return StorageError(
        "SM-STORAGE-018",
        f"the driver failed at {verb} in {files.location}",
        expected="a file system that answers, and files that this user may write",
        found=f"{type(error).__name__}: {error}",
        next_action="look at what was found; when that is mended, start the query again",
        path=files.location,
    )


def _done(files: Files, head: dict[str, Any], data: list[bytes]) -> Any:
    how = dict(head["how"])
    if "target" in how:
        how["target"] = Path(how["target"])
    if head["verb"] not in _VERBS:
        raise ValueError(head["verb"])
    return getattr(files, head["verb"])(*head["names"], *data, **how)


def _plain(found: Any) -> Any:
    if isinstance(found, tuple):
        return [asdict(each) for each in found]
    return asdict(found) if isinstance(found, FileEntry) else None
