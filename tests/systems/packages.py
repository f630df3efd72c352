"""Fetches what the systems run from, once: jars by Ivy, which PySpark brings, and moto by pip.

``python -m systems fetch`` makes ``FOLDER`` whole; everything else only looks there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark

FOLDER = Path(sys.prefix, "systems")
PYSPARK_JARS = Path(pyspark.__file__).parent / "jars"
_SETS = ("broker", "connector", "golden", "hdfs", "s3a")
_MODULE = Path(__file__).with_name("ivy.xml")
_REQUIREMENTS = Path(__file__).with_name("moto.txt")
_PATIENCE = 1200  # seconds
_NEXT = "next: look at the answer above, mend the way to the registry, and run `make systems` again"


class Missing(Exception):  # noqa: N818 - what the tests say
    """Something that the systems run from is not there."""


def fetch(say: Callable[[str], None]) -> None:
    """Fetch what is not there yet. Raises `Missing` with the registry's answer."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for listed, work in ((_MODULE, _fetch_jars), (_REQUIREMENTS, _fetch_moto)):
        if not _stamp(listed).exists():
            say(f"Fetching what {listed.name} lists; it takes about a minute, once")
            work()
            _stamp(listed).touch()


def jars(name: str) -> list[Path]:
    """The jars of one set of ``ivy.xml``; raises `Missing` where they were not fetched."""
    found = sorted((FOLDER / "jars" / name).glob("*.jar"))
    if not found or not _stamp(_MODULE).exists():
        raise Missing(f"no jars of the set {name!r} in {FOLDER}\n  next: make systems")
    return found


def moto_python() -> Path:
    """The Python that moto is installed for; raises `Missing` where it was not fetched."""
    command = FOLDER / "moto" / "bin" / "python"
    if not command.exists() or not _stamp(_REQUIREMENTS).exists():
        raise Missing(f"no {command}\n  next: make systems")
    return command


def java() -> str:
    """The command for a system's own process; the tests' quick one is for Spark's classes."""
    home = os.environ.get("JAVA_HOME")
    quick = Path(sys.prefix, "java")
    if home and Path(home) != quick:
        return str(Path(home, "bin", "java"))
    found = shutil.which("java")
    if found is None:
        raise Missing("no java on the path\n  next: make java")
    return found


def _stamp(listed: Path) -> Path:
    digest = hashlib.sha256(listed.read_bytes()).hexdigest()[:16]
    return FOLDER / f"{listed.name}-{digest}.fetched"


def _fetch_jars() -> None:
    target = FOLDER / "jars"
    shutil.rmtree(target, ignore_errors=True)
    cache = FOLDER / "ivy"
    command = [java(), f"-Divy.default.ivy.user.dir={cache}", "-cp", f"{PYSPARK_JARS}/*"]
    command += ["org.apache.ivy.Main", "-warn", "-ivy", str(_MODULE)]
    command += ["-types", "jar", "bundle", "test-jar"]
    if "IVY_SETTINGS" in os.environ:
        command += ["-settings", os.environ["IVY_SETTINGS"]]
    command += ["-confs", *_SETS]
    command += ["-retrieve", f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"]
    _run(command, "the jars")
    absent = [each for each in _SETS if not list((target / each).glob("*.jar"))]
    if absent:
        raise Missing(f"Ivy gave no jars of the sets {absent}\n  {_NEXT}")
    shutil.rmtree(cache)


def _fetch_moto() -> None:
    place = FOLDER / "moto"
    shutil.rmtree(place, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(place)], "a virtual environment")
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    _run([*pip, "--requirement", str(_REQUIREMENTS)], "moto")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode:
        raise Missing(f"could not fetch {what}:\n{done.stdout[-4000:]}\n  {_NEXT}")
