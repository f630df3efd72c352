"""Whether the workers can run the migration scripts: said before a query starts.

Transforms travel by value, with the modules that lie beside the scripts. Any other module that they
need must be importable where the executors run, as for every function that Spark sends there.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from types import FunctionType
from typing import TYPE_CHECKING, Any

from statemigrate.errors import StartupError
from statemigrate.migration import Lineage
from statemigrate.migration.imports import imported_inside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS = 8
_FUNCTIONS = ("upgrade", "downgrade", "rekey", "merge", "upgrade_table")
_EVERYWHERE = {"statemigrate", "pyspark", "__main__"}


def check_workers(lineages: Mapping[str, Lineage]) -> None:
    """Raise `StartupError` if the workers of the active session lack what transforms import.

    Spark is asked only where transforms import more than Python and statemigrate have; without a
    session nobody is asked.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return
    payload = _pickled(lineages)
    modules = _named_in(payload)
    inside = {name for each in _functions(lineages) for name in imported_inside(each)}
    wanted = tuple(sorted(name for name in inside if not _is_everywhere(name)))
    if not modules and not wanted:
        return
    found = _asked(session, payload, wanted)
    if found is not None:
        raise _missing(lineages, found, sorted({*modules, *wanted}))


def use_this_python(session: SparkSession | None = None) -> None:
    """Let local workers run this very interpreter, whatever ``python3`` on the path is.

    Those of the active session, where none is given and there is one.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    session = session or SparkSession.getActiveSession()
    if session is None or is_remote():
        return
    context = session.sparkContext
    chosen = "PYSPARK_PYTHON" in os.environ
    if not chosen and (context.master or "").startswith("local"):
        context.pythonExec = sys.executable


def _pickled(lineages: Mapping[str, Lineage]) -> bytes:
    from pyspark import cloudpickle

    try:
        document: bytes = cloudpickle.dumps(_functions(lineages))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise StartupError(
            "the migration scripts cannot be sent to the workers",
            expected="functions, and modules beside them, that cloudpickle takes by value",
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


def _asked(session: SparkSession, payload: bytes, modules: tuple[str, ...]) -> str | None:
    """What the first worker says that cannot load the functions."""
    from pyspark.errors import PySparkException

    look = partial(_look, payload=payload, modules=modules)
    rows = session.range(0, _TASKS, 1, _TASKS).mapInArrow(look, "found string")
    try:
        found = rows.where("found IS NOT NULL").first()
    except PySparkException as error:
        return str(error).strip().splitlines()[-1]
    return None if found is None else str(found.found)


def _look(batches: Iterator[Any], payload: bytes, modules: tuple[str, ...]) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"found": pa.array([_problem(payload, modules)], pa.string())})


def _problem(payload: bytes, modules: tuple[str, ...]) -> str | None:
    try:
        # The driver's own functions, as Spark would send them; nothing of a checkpoint.
        pickle.loads(payload)  # noqa: S301
        missing = [name for name in modules if find_spec(name) is None]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"ModuleNotFoundError: No module named {missing[0]!r}" if missing else None


def _missing(lineages: Mapping[str, Lineage], found: str, modules: list[str]) -> StartupError:
    paths = sorted({m.path for each in lineages.values() for m in each.migrations if m.path})
    return StartupError(
        "the workers cannot load the migration scripts",
        expected=f"on every worker: {', '.join(modules)}",
        found=found,
        next_action="install it where the executors run, or send it: spark-submit --py-files, or "
        "spark.sparkContext.addPyFile before this; a module that only scripts need can lie in the "
        "scripts' folder, beside versions, and travels with them",
        modules=modules,
        paths=paths,
    )
