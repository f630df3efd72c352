"""Whether the workers can run a query: asked on each executor, reported before the query starts.

Transforms travel by value, with the modules in the scripts' folder. Any other module that they
need must be importable where the executors run, as for every function that Spark sends there; and
so must this package, and what Spark's own workers import for the query.
"""

from __future__ import annotations

import builtins
import json
import os
import pickletools
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError
from statemigrate.files import has_jvm
from statemigrate.migration import Lineage, imported_inside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


Packages = tuple[str, ...]
PROCESSORS: Packages = ("statemigrate", "fastavro", "pandas", "protobuf", "pyarrow")
"""What workers import for ``transformWithState``, in pages or not."""
FUNCTIONS: Packages = ("statemigrate", "fastavro", "pandas", "pyarrow")
"""What they import for ``applyInPandasWithState``."""
EMBEDDED: Packages = ("statemigrate", "fastavro", "pyarrow", "rocksdict")
"""What they import for the embedded engine."""
EXTRA = "statemigrate[workers]"
"""What `pip install` brings all of it by, without a Spark."""

_SPARKS_OWN = "pyspark.sql.pandas.utils:require_minimum_"
_IMPORTED = {
    "statemigrate": ("statemigrate",),
    "fastavro": ("fastavro",),
    "rocksdict": ("rocksdict",),
    "pandas": (f"{_SPARKS_OWN}pandas_version",),
    "pyarrow": (f"{_SPARKS_OWN}pyarrow_version",),
    "protobuf": ("google.protobuf.descriptor", "pyspark.sql.streaming.proto.StateMessage_pb2"),
}
"""What proves a package: modules that are imported, or a function of one that is called."""
_FUNCTIONS = ("upgrade", "downgrade", "rekey", "merge", "upgrade_table")
_EVERYWHERE = {"statemigrate", "pyspark", "__main__"}
_ROUNDS = 3
_PAUSE = 0.1
"""Seconds that a task of a later round stays, so that one executor does not take them all."""
_SHOWN = 3
_TASKS = 8
"""Where nobody says how many executors there are (Spark Connect)."""
_LOST = re.compile(r"\(TID [0-9]+\) \(([^ )]+)[^)]*\): ")
_UNCOUNTED = "whichever answered"
_answered: dict[tuple[str, str], dict[str, set[str]]] = {}
"""By application and Python, and by package, the executors that have it."""


@dataclass(frozen=True)
class WorkerPython:
    """The Python that the workers of one executor run, as one of them says.

    ``executor`` tells those of one host apart. ``packages`` has the installed version of each that
    was asked for, None where no metadata says it; ``missing`` has, by package, why it cannot be
    imported; ``scripts`` why the transforms cannot be loaded, None where they can.
    """

    host: str
    executor: str
    python: str
    executable: str
    packages: Mapping[str, str | None]
    missing: Mapping[str, str]
    scripts: str | None = None

    @property
    def faults(self) -> dict[str, str]:
        """Why, by package, a query of this driver cannot run there."""
        found, own = self.packages.get("statemigrate"), own_version()
        faults = dict(self.missing)
        # Where both say theirs: a folder on the path has no version.
        if "statemigrate" not in faults and None not in (found, own) and found != own:
            faults["statemigrate"] = f"version {found}, and the driver has {own}"
        return faults

    @property
    def described(self) -> str:
        """The Python and what is wrong with it, in a line."""
        faults = "; ".join(f"{name}: {why}" for name, why in self.faults.items())
        return f"{self.host}, Python {self.python} ({self.executable}): {faults or 'all is there'}"


@dataclass(frozen=True)
class Workers:
    """What the workers of a session say; ``executors`` is how many Spark says there are.

    It is None where Spark does not say it.
    """

    pythons: tuple[WorkerPython, ...]
    executors: int | None

    @property
    def is_whole(self) -> bool:
        """Whether every executor is known to have answered."""
        return self.executors is not None and len(self.pythons) >= self.executors


def check_packages(packages: Packages, session: SparkSession | None = None) -> None:
    """Raise `StartupError` if workers lack one of ``packages``, or have another statemigrate.

    A task is run on every executor of the session, the active one unless it is given; where all
    have answered well before, and none has come since, nobody is asked again. Over Spark Connect,
    which counts no executors, eight tasks are run, once a session. Without a session nobody is
    asked at all.
    """
    session = session or _active()
    if session is None:
        return
    here = {_UNCOUNTED} if not has_jvm(session) else _processes(session)
    to_ask = _packages_to_ask(session, here, packages)
    if not to_ask:
        return
    try:
        found = asked(session, to_ask)
    except StartupError as error:
        raise _unable(error, packages) from error
    lacking = [each for each in found.pythons if each.faults]
    if lacking:
        raise _lacking(lacking, packages)
    if found.is_whole or found.executors is None:
        _remember(session, here, to_ask)


def check_scripts(lineages: Mapping[str, Lineage], session: SparkSession | None = None) -> None:
    """Raise `StartupError` if workers lack what transforms import.

    They are asked as in `check_packages`, but each time, and only where transforms import more than
    Python and statemigrate have.
    """
    session = session or _active()
    if session is None:
        return
    payload = _pickled(lineages)
    modules = _named_in(payload)
    inside = {name for each in _functions(lineages) for name in imported_inside(each)}
    wanted = tuple(sorted(name for name in inside if not _is_everywhere(name)))
    if not modules and not wanted:
        return
    everything = sorted({*modules, *wanted})
    try:
        found = asked(session, (), payload, wanted)
    except StartupError as error:
        raise _unloaded(lineages, error.data["host"], str(error.found), everything) from error
    for each in found.pythons:
        if each.scripts is not None:
            raise _unloaded(lineages, each.host, each.scripts, everything)


def asked(
    session: SparkSession, packages: Packages, payload: bytes = b"", modules: Sequence[str] = ()
) -> Workers:
    """What one worker of each executor says.

    Raises `StartupError` where none can start, with ``host`` in its data, None where Spark says
    none.
    """
    imported = {name: _IMPORTED[name] for name in packages}
    look = partial(
        _by_value(_worker_report), imported=imported, payload=payload, modules=tuple(modules)
    )
    if not has_jvm(session):
        return Workers(tuple(_answers(partial(_over_connect, session, look))), None)
    context = session.sparkContext
    found: dict[tuple[str, str], WorkerPython] = {}
    for number in range(_ROUNDS):
        # Spark spreads tasks over the executors that are idle. The later rounds are for those that
        # were busy, or have come since.
        tasks = max(_executors(session), 1)
        if number:
            tasks, look = max(tasks, context.defaultParallelism), partial(look, pause=_PAUSE)
        answers = _answers(partial(_by_context, context, look, tasks))
        found |= {(each.host, each.executor): each for each in answers}
        if len(found) >= _executors(session):
            break
    return Workers(tuple(found[name] for name in sorted(found)), _executors(session))


def this_python(packages: Packages) -> WorkerPython:
    """What `asked` would say of the Python that this runs in."""
    imported = {name: _IMPORTED[name] for name in packages}
    return WorkerPython(
        **json.loads(_by_value(_worker_report)(imported=imported, payload=b"", modules=()))
    )


def use_this_python(session: SparkSession | None = None) -> None:
    """Let local workers run this very interpreter, whatever ``python3`` on the path is.

    Those of the active session, where none is given and there is one.
    """
    from pyspark.sql.utils import is_remote

    session = session or _active()
    if session is None or is_remote():
        return
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ
    if not chosen and is_local(context.master):
        context.pythonExec = sys.executable


def is_local(master: str | None) -> bool:
    """Whether a master, as Spark takes it, runs its tasks in the driver's own process."""
    return re.fullmatch(r"local(\[.*\])?", master or "") is not None


def _active() -> SparkSession | None:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def is_one_machine(master: str | None) -> bool:
    """Whether all tasks of a master, as Spark takes it, run on the driver's machine."""
    return is_local(master) or (master or "").startswith("local-cluster[")


def _processes(session: SparkSession) -> set[str]:
    """The addresses of the driver and of all executors."""
    infos = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return {f"{each.host()}:{each.port()}" for each in infos}


def _executors(session: SparkSession) -> int:
    """How many processes run tasks: of a local master the driver alone, else all but the driver."""
    found = len(_processes(session))
    return found if is_local(session.sparkContext.master) else found - 1


def _packages_to_ask(session: SparkSession, here: set[str], packages: Packages) -> Packages:
    """Those of ``packages`` that not every executor ``here`` has, as far as is known."""
    if has_jvm(session) and not _executors(session):
        return packages
    known = _answered.get(_python_of(session), {})
    return tuple(each for each in packages if not here <= known.get(each, set()))


def _remember(session: SparkSession, here: set[str], packages: Packages) -> None:
    known = _answered.setdefault(_python_of(session), {})
    for each in packages:
        known.setdefault(each, set()).update(here)


def _python_of(session: SparkSession) -> tuple[str, str]:
    if not has_jvm(session):
        return str(session.session_id), ""  # type: ignore[attr-defined]
    context = session.sparkContext
    return context.applicationId, context.pythonExec


def _by_value(function: Any) -> FunctionType:
    """The same function as cloudpickle takes it whole: workers may lack this package."""
    made = FunctionType(function.__code__, {"__builtins__": builtins}, function.__name__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__ = "__main__"
    return made


def _worker_report(
    *,
    imported: dict[str, tuple[str, ...]],
    payload: bytes,
    modules: tuple[str, ...],
    pause: float = 0.0,
) -> str:
    """What a worker says of itself, as JSON. It uses nothing of this module."""
    import json
    import os
    import pickle
    import platform
    import socket
    import sys
    import time
    from importlib import import_module, metadata
    from importlib.util import find_spec

    time.sleep(pause)
    versions: dict[str, str | None] = {}
    missing: dict[str, str] = {}
    for package, proofs in imported.items():
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
        for proof in proofs:
            module, _, function = proof.partition(":")
            try:
                found = import_module(module)
                if function:
                    getattr(found, function)()
            except Exception as error:
                # Releases of Spark keep their own modules in other places.
                if (getattr(error, "name", None) or "").partition(".")[0] != "pyspark":
                    missing[package] = f"{type(error).__name__}: {error}"
                    break
    scripts = None
    try:
        if payload:
            # The driver's own functions, as Spark would send them; nothing of a checkpoint.
            pickle.loads(payload)  # noqa: S301
        lacking = [name for name in modules if find_spec(name) is None]
        if lacking:
            scripts = f"ModuleNotFoundError: No module named {lacking[0]!r}"
    except Exception as error:
        scripts = f"{type(error).__name__}: {error}"
    return json.dumps(
        {
            "host": socket.gethostname(),
            # The process that an executor starts its workers from.
            "executor": str(os.getppid()),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": versions,
            "missing": missing,
            "scripts": scripts,
        }
    )


def _by_context(context: Any, look: Any, tasks: int) -> Iterable[str]:
    # Plain rows of Python: Arrow, which other ways need, is among what is asked for.
    found: list[str] = context.parallelize(range(tasks), tasks).map(_each(look)).collect()
    return found


def _over_connect(session: SparkSession, look: Any) -> Iterable[str]:
    from pyspark.sql.functions import col, udf

    ask = udf(_each(look), "string")
    rows = session.range(0, _TASKS, 1, _TASKS).select(ask(col("id")).alias("found")).collect()
    return [str(row["found"]) for row in rows]


def _each(look: Any) -> FunctionType:
    made = _by_value(_answer)
    made.__kwdefaults__ = {"look": look}
    return made


def _answer(_: int, *, look: Any = None) -> str:
    return look()  # type: ignore[no-any-return]


def _answers(run: Any) -> list[WorkerPython]:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return [WorkerPython(**json.loads(each)) for each in run()]
    except (Py4JError, PySparkException) as error:
        host, found = _failure(str(error))
        raise StartupError(
            "SM-WORKERS-001",
            "no worker could be started to be asked what it has",
            expected="a task that runs on every executor",
            found=found,
            next_action=what_to_install(),
            host=host,
        ) from error


def _failure(text: str) -> tuple[str | None, str]:
    """Of what Spark says of a job that failed, the host, and the line that says why."""
    lost = _LOST.search(text)
    rest = text[lost.end() :] if lost else text
    lines = [each for each in rest.partition("\n\tat ")[0].splitlines() if each.strip()]
    if "Traceback (most recent call last)" in rest:
        # Python's own last line, behind where it was.
        lines = lines[-1:]
    elif lines and not lines[0].endswith(": "):
        lines = lines[:1]
    found = " ".join(each.strip() for each in lines[:_SHOWN]) or text.strip()
    return (lost[1] if lost else None), found


def own_version() -> str | None:
    """The version of this package as it is installed here; None of a folder on the path."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("statemigrate")
    except PackageNotFoundError:
        return None


def expected_there(packages: Packages) -> str:
    """What workers need, in words."""
    named = {"statemigrate": f"statemigrate {own_version() or ''}".rstrip()}
    wanted = ", ".join(named.get(each, each) for each in packages)
    return f"on every worker: Python {sys.version_info[0]}.{sys.version_info[1]}, {wanted}"


def what_to_install() -> str:
    """What to do about workers that lack something, as the end of an error."""
    own = own_version()
    wanted = EXTRA if own is None else f"{EXTRA}=={own}"
    return (
        f"run `pip install '{wanted}'` with that Python on every worker, or in the environment "
        "that travels with the query (spark-submit --archives); or let PYSPARK_PYTHON name the "
        "Python there that has it, before the session is made"
    )


def _unable(error: StartupError, packages: Packages) -> StartupError:
    host = error.data["host"]
    return StartupError(
        "SM-WORKERS-002",
        f"the workers cannot run this query: Spark starts no Python on {host or 'an executor'}",
        expected=expected_there(packages),
        found=error.found,
        next_action=what_to_install(),
        hosts=[host] if host else [],
        packages=[],
    )


def _lacking(lacking: Sequence[WorkerPython], packages: Packages) -> StartupError:
    names = [each for each in packages if any(each in there.faults for there in lacking)]
    hosts = sorted({each.host for each in lacking})
    # Executors of one host have one Python, as a rule.
    found = list(dict.fromkeys(each.described for each in lacking))
    return StartupError(
        "SM-WORKERS-003",
        f"the workers cannot run this query: no {', '.join(names)} that it can use on "
        f"{', '.join(hosts[:_SHOWN])}{', ...' if len(hosts) > _SHOWN else ''}",
        expected=expected_there(packages),
        found="; ".join(found[:_SHOWN]),
        next_action=what_to_install(),
        hosts=hosts,
        packages=names,
    )


def _pickled(lineages: Mapping[str, Lineage]) -> bytes:
    from pyspark import cloudpickle

    try:
        document: bytes = cloudpickle.dumps(_functions(lineages))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise StartupError(
            "SM-WORKERS-004",
            "the migration scripts cannot be sent to the workers",
            expected="functions, and modules in their folder, that cloudpickle takes by value",
            found=f"{type(error).__name__}: {error}",
            next_action="keep open files, locks and connections out of the module's globals",
        ) from error
    return document


def _functions(lineages: Mapping[str, Lineage]) -> list[FunctionType]:
    scripts = (m for each in lineages.values() for m in each.migrations)
    functions = (getattr(m, name) for m in scripts for name in _FUNCTIONS)
    return [each for each in functions if isinstance(each, FunctionType)]


def _named_in(payload: bytes) -> list[str]:
    """The modules that the pickle takes by name; a text that is one by chance does no harm."""
    texts = {value for _, value, _ in pickletools.genops(payload) if isinstance(value, str)}
    return sorted(text for text in texts if text in sys.modules and not _is_everywhere(text))


def _is_everywhere(module: str) -> bool:
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names or root in _EVERYWHERE


def _unloaded(
    lineages: Mapping[str, Lineage], host: str | None, found: str, modules: list[str]
) -> StartupError:
    paths = sorted({m.path for each in lineages.values() for m in each.migrations if m.path})
    return StartupError(
        "SM-WORKERS-005",
        f"the workers cannot load the migration scripts, on {host or 'an executor'}",
        expected=f"on every worker: {', '.join(modules)}",
        found=found,
        next_action="install it where the executors run, or send it: spark-submit --py-files, or "
        "spark.sparkContext.addPyFile before this; a module that only scripts need can lie in the "
        "scripts' folder, next to versions, and travels with them",
        modules=modules,
        paths=paths,
        host=host,
    )


# Whether the sources of a session's queries have names, so that ours needs one too.
#
# Spark wants a name of every source of a query, or of none (``readStream.name``, from 4.2 on).


SOURCE_NAMES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


def has_named_sources(spark: SparkSession) -> bool:
    """Whether each source of a session's queries has a name."""
    return str(spark.conf.get(SOURCE_NAMES, "false")).lower() == "true"


def reader_named(spark: SparkSession, name: str) -> DataStreamReader:
    """A reader for a stream, under the name where the session's sources have names."""
    reader = spark.readStream
    return reader.name(name) if has_named_sources(spark) else reader
