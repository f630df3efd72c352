"""`migrated`: what a user puts on a processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from statemigrate.checkpoint import Fence, newest_epoch, this_driver
from statemigrate.deployment import SETTINGS, DeploymentSettings
from statemigrate.errors import StartupError
from statemigrate.files import open_files
from statemigrate.native.deployed_variables import DEPLOYED
from statemigrate.native.variables_startup import deployed, migrated_function
from statemigrate.native.worker import begin, put_on

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


T = TypeVar("T")


def migrated(  # noqa: PLR0913 - all but the first by name
    processor: T | None = None,
    *,
    store: str | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    write_on_read: bool = True,
    accept_edited: tuple[str, ...] = (),
    checkpoint: str | Path | None = None,
    on_error: Literal["raise", "quarantine"] = "raise",
    retire_drained: bool = True,
    operator: int | None = None,
    complement: bool | None = None,
) -> Any:
    """Give a ``StatefulProcessor`` class or instance migrations for its stores.

    Or wrap a function for ``applyInPandasWithState``: then ``store`` names its state, and the
    query's ``stateStructType`` is `statemigrate.ENVELOPE`. The function is called as before, and
    its state has the target's format.

    ``migrations`` is the folder of scripts. ``targets`` names, by store, the revision that the code
    is written for, the head by default. With ``write_on_read=False`` reads do not migrate.
    ``accept_edited`` names scripts that were edited after they were applied. With
    ``complement=True`` what scripts leave out of a value stays, apart from it, and comes back with
    a rollback; False gives up what has been left out, and None goes on as the checkpoint is.

    The other parameters are for ``transformWithState`` on Spark's own state; for the embedded
    engine, `EmbeddedQuery` and its options have the same. With ``checkpoint``, the query's
    checkpoint directory, code, scripts and state are compared before the query starts. The query
    then reads only families that still have values, and with ``retire_drained`` drops the others.
    ``on_error`` decides what the backfill does with a value that does not migrate. ``operator`` is
    Spark's number of the stateful operator, if several of the query run migrated code; the error
    that asks for it lists them.

    Use it as ``@migrated``, ``@migrated(...)`` or ``migrated(instance, ...)``; the code stays the
    same. The driver reads the scripts when an instance is made or a function is wrapped, and sends
    them to the workers with it. With ``checkpoint`` this raises `ScriptError` or `LineageError` for
    unusable scripts and `StartupError` if code, scripts and state do not fit. Without it, the
    query's first batch does.

    Only formats are compared: this sees no stream. `statemigrate.guarded` compares the rest of the
    query, as its keys and filters; so do `stateful` and `with_backfill` for their operator.
    """
    settings = DeploymentSettings(
        migrations,
        dict(targets or {}),
        write_on_read,
        accept_edited,
        None if checkpoint is None else str(checkpoint),
        on_error,
        retire_drained,
        operator,
        complement=complement,
    )

    def marked(target: Any) -> Any:
        return mark(target, settings, store)

    return marked if processor is None else marked(processor)


def mark(target: Any, settings: DeploymentSettings, store: str | None = None) -> Any:
    """Give a processor class or instance, or a function with a ``store``, the ``settings``."""
    _check_kind(target, store, settings.call)
    if store is not None:
        return migrated_function(target, store, settings)
    if isinstance(target, type):
        _mark_class(target, settings)
    else:
        _mark_instance(target, settings)
    return target


def _check_kind(target: object, store: str | None, call: str) -> None:
    # A processor is no less one for being callable.
    is_function = callable(target) and not hasattr(target, "handleInputRows")
    if is_function != (store is not None):
        raise StartupError(
            "SM-START-014",
            f"{call} cannot tell what {target!r} is",
            expected="a StatefulProcessor, or a function for applyInPandasWithState and store=",
            found="a function and no store=" if is_function else f"no function, store={store!r}",
            next_action="name a function's state with store=; a StatefulProcessor names its own",
        )


def _mark_class(marked: Any, settings: DeploymentSettings) -> None:
    made, init = marked.__init__, marked.init

    @wraps(made)
    def make(self: Any, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        # A subclass is not finished here; it needs a mark of its own.
        if type(self) is marked:
            put_on(self, DEPLOYED, deployed(self, settings))

    @wraps(init)
    def begun(self: Any, handle: Any) -> None:
        begin(self, handle, init)

    marked.__init__, marked.init = make, begun
    setattr(marked, SETTINGS, settings)


def _mark_instance(marked: Any, settings: DeploymentSettings) -> None:
    # A class of its own, so that other instances of the user's class stay as they are.
    base = type(marked)
    init = base.init

    @wraps(init)
    def begun(self: Any, handle: Any) -> None:
        begin(self, handle, init)

    body = {"__module__": base.__module__, "__qualname__": base.__qualname__, "init": begun}
    put_on(marked, "__class__", type(base.__name__, (base,), {**body, SETTINGS: settings}))
    put_on(marked, DEPLOYED, deployed(marked, settings))


# `fenced`: what a user puts on a function of ``foreachBatch``.


Sink = Callable[["DataFrame", int], None]


def fenced(sink: Sink, *, checkpoint: str | Path) -> Sink:
    """A function for ``foreachBatch`` that calls ``sink`` until another driver starts.

    It is for a query on Spark's own state, also in pages. If two drivers run on one checkpoint,
    Spark notices only when the second one commits, after both have written the batch. Each driver
    begins an epoch in ``checkpoint``, the query's ``checkpointLocation``: when it plans the first
    batch of a processor with `migrated` and ``checkpoint=``, or of `paged`, and otherwise before
    the sink gets its first batch. Before and after each call, the driver looks for a later epoch.
    This cannot take back what the sink writes while the other driver starts. So the sink should
    replace or upsert by the batch id, as for any batch that runs again.

    The call raises `CheckpointInUseError` if another driver has begun since, which ends the query
    before Spark commits the batch; `CheckpointError` if the checkpoint was removed or restored in
    between; and `UnsupportedError` on a store that cannot distinguish two drivers.
    """
    files = open_files(checkpoint)
    fence = Fence(files, this_driver(), newest_epoch(files))

    @wraps(sink)
    def guarded(rows: DataFrame, batch: int) -> None:
        fence.require_own(begins=True)
        sink(rows, batch)
        # A sink may take long; a query that has begun meanwhile runs this batch again.
        fence.require_newest()

    return guarded
