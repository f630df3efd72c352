"""What to do next about a store, true in the state that its checkpoint is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statemigrate.commands.following.store_status import StoreStatus
from statemigrate.files.remembered import Remembered
from statemigrate.native.backfill.chunk_files import ChunkFiles
from statemigrate.native.backfill.presence import is_untold, lacks_control_source, untold_advice
from statemigrate.shell import argument

_ENDS = " (one run with availableNow takes all chunks)"
_RUN = f"run the query{_ENDS}, with "
RUNNING = f"{_RUN}with_backfill around its stream and @migrated on its processor"
"""What a planned backfill needs: without either, its chunks are not taken."""
_RUNNING_PAGES = f"{_RUN}@migrated on its processor"


@dataclass(frozen=True)
class Looked:
    """What was looked at: a checkpoint, and of several operators on pages the one of a name."""

    checkpoint: str
    operator: str = ""

    def __str__(self) -> str:
        return self.checkpoint

    @property
    def words(self) -> str:
        """How commands name both."""
        option = f" --operator {argument(self.operator)}" if self.operator else ""
        return f"{argument(self.checkpoint)}{option}"


def next_step(store: StoreStatus, engine: str, at: str | Looked) -> str:
    """What to do next, in one sentence."""
    checkpoint = Looked(at) if isinstance(at, str) else at
    steps: tuple[Callable[[StoreStatus, str, Looked], str | None], ...]
    steps = (_scripts, _unscripted, _quarantined, _back, _left, _behind, _empty)
    found = (step(store, engine, checkpoint) for step in steps)
    done = "nothing: every value has the target's format"
    return next((each for each in found if each is not None), done)


def _scripts(store: StoreStatus, _engine: str, _checkpoint: Looked) -> str | None:
    if not store.is_broken:
        return None
    return f"statemigrate history {argument(store.store)} shows what is wrong with its scripts"


def _unscripted(store: StoreStatus, _engine: str, _checkpoint: Looked) -> str | None:
    if not store.is_unscripted:
        return None
    return (
        f"bring back the script of {store.target}, or name the folder that has it with "
        f"--migrations; statemigrate history {argument(store.store)} lists those that are here"
    )


def _quarantined(store: StoreStatus, _engine: str, checkpoint: Looked) -> str | None:
    if not store.quarantined:
        return None
    return (
        f"statemigrate dry-run {argument(store.store)} --checkpoint {checkpoint.words} "
        f"shows why {store.quarantined:,} fail"
    )


def _left(store: StoreStatus, engine: str, checkpoint: Looked) -> str | None:
    if not store.left:
        return None
    if engine != "embedded":
        return _native_backfill(checkpoint, RUNNING if engine == "native" else _RUNNING_PAGES)
    return (
        "run the query: its backfill goes on (to the end of it in one run with availableNow and "
        f"BackfillOptions(drain=True)); or run statemigrate backfill {checkpoint.words} "
        "while it is stopped"
    )


def _back(store: StoreStatus, engine: str, checkpoint: Looked) -> str | None:
    """The way back, which is planned for another target than the scripts' head."""
    if not store.goes_back:
        return None
    step = (
        f"statemigrate rollback {checkpoint.words} "
        f"--to {argument(f'{store.store}={store.target}')} says how the values go back"
    )
    if engine != "native":
        return step
    return step + "; until then code without migrated would forget them"


def _native_backfill(checkpoint: Looked, running: str) -> str:
    files = ChunkFiles(checkpoint.checkpoint, checkpoint.operator)
    look = ChunkFiles(Remembered(files.files), checkpoint.operator)
    offsets = look.offsets()
    if offsets is not None and is_untold(look, offsets):
        return untold_advice(checkpoint.checkpoint)
    if lacks_control_source(look):
        return (
            f"stop the query, run statemigrate adopt {argument(checkpoint)} --apply, put "
            "with_backfill around its stream and start it again"
        )
    plan, log = files.plan(), files.log()
    waiting = len(files.written() - log.taken.keys())
    if plan is None or not (waiting or files.uncut()):
        return f"statemigrate backfill {checkpoint.words}"
    if not waiting:
        return (
            f"{running.replace(_ENDS, '')}; statemigrate backfill {checkpoint.words} "
            "--status follows"
        )
    chunks = f"{waiting:,} {'chunk' if waiting == 1 else 'chunks'}"
    return (
        f"{running}: {chunks} of its backfill {'waits' if waiting == 1 else 'wait'} to be taken; "
        f"statemigrate backfill {checkpoint.words} --status follows"
    )


def _empty(store: StoreStatus, _engine: str, _checkpoint: Looked) -> str | None:
    if not store.families:
        return None
    return "restart the query: what is empty leaves the read path and is dropped"


def _behind(store: StoreStatus, _engine: str, checkpoint: Looked) -> str | None:
    wanted = store.wanted
    if wanted is None:
        return None
    if store.rewrites:
        return (
            f"statemigrate dry-run {argument(store.store)} --checkpoint {checkpoint.words}, "
            f"then stop the query and statemigrate rewrite {argument(checkpoint)} NEW"
        )
    return (
        f"statemigrate dry-run {argument(store.store)} --checkpoint {checkpoint.words}, "
        f"then deploy the code for {wanted}, with @migrated on it"
    )
