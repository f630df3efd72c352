"""What the new code keeps and reads: seen by running it on nothing, or in a checkpoint of its."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statemigrate.checkpoint.operators.shapes import CheckpointShape
from statemigrate.checkpoint.shape import describe
from statemigrate.deployment.references import named_object
from statemigrate.errors import RewriteError
from statemigrate.files import Files
from statemigrate.files.opening import open_files
from statemigrate.native.spark_state.session import session_of
from statemigrate.rewrite.plan.sources import NewSources
from statemigrate.rewrite.probe.run import probed_inputs, run_probe

if TYPE_CHECKING:
    from statemigrate.native.spark_state.session import Spark


@dataclass(frozen=True)
class NewCode:
    """What the new code keeps, said in one of two ways; neither where it keeps what the old did.

    ``code`` is ``MODULE:FUNCTION``, a function from the input streams to the result, which is run
    on empty streams: ``inputs`` has their schemas by name where the function does not say them, and
    ``mode`` the output mode. ``like`` is a checkpoint that the new code has made on a little input.
    """

    code: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    like: str | Path | None = None


@dataclass(frozen=True)
class Probed:
    """The ``shape`` of a checkpoint that the new code has made, and what the code reads."""

    shape: CheckpointShape
    sources: NewSources


def probed(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed | None:
    """Look at what the new code keeps; None where nothing is said of it.

    ``pinned`` are the settings that the new checkpoint will have, None where those of the session
    or the probe are right. Raises `CodeError` for code that does not run, `RewriteError` for one
    that is said twice or was made with other settings.
    """
    if wanted.code and wanted.like:
        raise RewriteError(
            "the new code is said in two ways",
            expected="--code or --like",
            found="both",
            next_action="leave one of them out",
        )
    if wanted.like:
        return _described(open_files(wanted.like), pinned)
    return _run(wanted, pinned, spark, checkpoint) if wanted.code else None


def _run(
    wanted: NewCode, pinned: Mapping[str, str] | None, spark: Spark, checkpoint: str
) -> Probed:
    assert wanted.code is not None, "asked before"  # noqa: S101
    function = named_object(wanted.code)
    session = session_of(spark, checkpoint)
    with tempfile.TemporaryDirectory(prefix="statemigrate-probe-") as folder:
        made = run_probe(
            function,
            Path(folder),
            session,
            inputs=wanted.inputs,
            mode=wanted.mode,
            conf=pinned or {},
            reference=wanted.code,
        )
        files = open_files(made.as_uri())
        shape = describe(files, 0)
        return Probed(shape, NewSources.of(shape, probed_inputs(files)))


def _described(like: Files, pinned: Mapping[str, str] | None) -> Probed:
    """The operators of a checkpoint that was made elsewhere, with formats of its own."""
    shape = describe(like)
    differing = sorted(
        name
        for name in shape.conf
        if name.endswith(("stateFormatVersion", "encodingFormat", "providerClass"))
        and pinned is not None
        and shape.conf[name] != pinned.get(name)
    )
    if pinned is not None and differing:
        name = differing[0]
        raise RewriteError(
            f"{like.location} was made with other settings than the new checkpoint will have",
            expected=f"{name}={pinned.get(name)}",
            found=f"{name}={shape.conf[name]}",
            next_action="make it with the setting of the old checkpoint, or ask for the new one, "
            f"as in --conf {name}={shape.conf[name]}",
        )
    return Probed(shape, NewSources.of(shape))
