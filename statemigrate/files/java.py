"""Whether there is a Java that Spark runs on, asked before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from statemigrate.errors import StatemigrateError

MINIMUM = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def require_java() -> int:
    """The major version of the Java that Spark will use: JAVA_HOME's, else the path's.

    Raises `StatemigrateError` when there is none or it is older than 17.
    """
    java = find_java()
    if java is None:
        raise _error(_where_looked())
    printed = _printed_version(java)
    match = _VERSION.search(printed)
    if match is None:
        raise _error(f"{java}, which answers: {printed.strip() or 'nothing'}")
    major = int(match.group(1))
    if major < MINIMUM:
        raise _error(f"Java {major} ({java})")
    return major


def find_java() -> str | None:
    """The command that Spark will call, None where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        # Spark does the same: with JAVA_HOME set it never looks at the path.
        return shutil.which("java", path=str(Path(home) / "bin"))
    return shutil.which("java")


def _where_looked() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"no bin/java in JAVA_HOME={home}" if home else "no java on the path, no JAVA_HOME"


def _printed_version(java: str) -> str:
    done = subprocess.run(  # noqa: S603 - the user's own java, no shell
        [java, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr + done.stdout


def _error(found: str) -> StatemigrateError:
    return StatemigrateError(
        "SM-PACKAGES-002",
        "Spark needs Java 17 or newer",
        expected=f"Java {MINIMUM} or newer in JAVA_HOME or on the path",
        found=found,
        next_action="install a Java runtime (Debian and Ubuntu: apt install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME to one",
    )
