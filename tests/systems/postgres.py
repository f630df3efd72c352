"""A PostgreSQL server, trusting whoever reaches it on this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from systems.packages import Missing
from systems.processes import Process, answers, free_port

_USER = "postgres"


class Postgres:
    """Started with its construction, in ``folder``; ``uri`` is what a client connects to.

    It refuses to run as root: started by root, its processes and files are the user postgres's.
    """

    def __init__(self, folder: Path) -> None:
        self.conf: dict[str, str] = {}
        self.jars: tuple[Path, ...] = ()
        place = folder / "postgres"
        place.mkdir()
        user = _user()
        if user is not None:
            folder.chmod(0o711)
            shutil.chown(place, user)
        data = str(place / "data")
        port = free_port()
        _initialise(data, place, user)
        command = [_program("postgres"), "-D", data, "-p", str(port), "-k", str(place)]
        command += ["-h", "127.0.0.1", "-c", "fsync=off"]
        self._process = Process(command, place / "log", user)
        self._process.wait_until(lambda: answers(port))
        self._server = f"postgresql://{_USER}@127.0.0.1:{port}"
        self.uri = f"{self._server}/{_USER}"

    def database(self, name: str) -> str:
        """Make a database; its URI."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"{self._server}/{name}"

    def stop(self) -> None:
        """End it, and its sessions."""
        self._process.end(signal.SIGINT)


def _user() -> str | None:
    """Who it runs as where not as this process's own user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_USER).pw_name
    except KeyError:
        raise Missing(f"no user {_USER}, who a server started by root runs as") from None


def _initialise(data: str, place: Path, user: str | None) -> None:
    command = [_program("initdb"), "-D", data, "-A", "trust", "-U", _USER, "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=place, user=user)


def _program(name: str) -> str:
    installed = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = max(installed, key=lambda path: int(path.parts[-3]), default=None)
    found = shutil.which(name) or newest
    if found is None:
        raise Missing(f"no {name} on the path\n  next: sh scripts/ensure-postgres.sh")
    return str(found)
