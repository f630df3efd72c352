"""Trying a migration on values in a file, where the state itself is out of reach."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from statemigrate.errors import FormatError, LineageError, StatemigrateError, shown, values_hidden
from statemigrate.files import parse_json
from statemigrate.formats import Format, Value
from statemigrate.formats.avro.reading import read_container
from statemigrate.formats.json_values import value_from_json
from statemigrate.inspect.dry_run import check_sample, open_questions, read_lineages, script_notes
from statemigrate.inspect.laws import inverses_of
from statemigrate.inspect.report import DryRunReport
from statemigrate.inspect.trial import Trial
from statemigrate.migration import Lineage

Keyed = tuple[Any, Any]


def dry_run_file(
    store: str,
    path: str | Path,
    *,
    migrations: str | Path = "migrations",
    revision: str | None = None,
    targets: Mapping[str, str] | None = None,
    sample: int | None = None,
) -> DryRunReport:
    """Run the values in a file through the scripts of ``store``, and report on it.

    ``path`` is an Avro container file or JSON lines: records with ``key`` and ``value`` as
    `statemigrate export` writes them, or values alone; the values of a list count one by one.
    ``revision`` is that of the values, the one before the target by default. ``sample`` tries only
    the first so many.

    Raises `FormatError` or `ValueMismatchError` for a file whose values are not of that revision,
    with the number of the record, and `LineageError` for scripts that do not lead to the target.
    """
    check_sample(sample)
    lineage = read_lineages(migrations, store)[store]
    target = lineage.resolve((targets or {}).get(store, "head"))
    source = lineage.resolve(revision) if revision else _before(lineage, target)
    trial = _trial(lineage, source, target)
    steps = lineage.path(source, target).steps
    began = time.monotonic()
    values = _values(Path(path), lineage.format_of(source))
    for key, value in values if sample is None else islice(values, sample):
        trial.run(key, lineage.format_of(source).encode(value), value)
    found = trial.finished(trial.findings.tried)
    return DryRunReport(
        store=store,
        kind="value",
        engine="file",
        checkpoint=str(path),
        batch=None,
        target=target,
        sample=sample,
        in_target=0,
        families=(
            found.described(
                Path(path).name,
                source,
                reversible=lineage.missing_downgrade(target, source) is None,
                steps=steps,
            ),
        ),
        seconds=time.monotonic() - began,
        backfill=None,
        questions=open_questions(lineage, steps),
        scripts=script_notes(lineage, steps),
        made_at=time.time(),
        version=version("statemigrate"),
    )


def _trial(lineage: Lineage, source: str, target: str) -> Trial:
    back = lineage.missing_downgrade(target, source)
    return Trial(
        lineage.format_of(source),
        lineage.format_of(target),
        lineage.path(source, target),
        None if back else lineage.path(target, source),
        lambda key: key,
        inverses=inverses_of(lineage, lineage.path(source, target)),
        examples=not values_hidden(),
    )


def _before(lineage: Lineage, target: str) -> str:
    place = lineage.position(target)
    if place == 0:
        raise LineageError(
            "SM-LINEAGE-007",
            f"Nothing leads to {target}: it is the oldest revision of store '{lineage.store}'.",
            expected="a target that a script leads to",
            found=target,
            next_action="name the revision of the file's values with --from-revision",
            store=lineage.store,
        )
    return lineage.revisions[place - 1]


def _values(path: Path, fmt: Format) -> Iterator[Keyed]:
    records = _avro(path) if path.suffix == ".avro" else _json_lines(path)
    for number, record in enumerate(records, 1):
        key, held = _split(record, number, fmt)
        for each in held if isinstance(held, list) else [held]:
            yield key, _value(path, number, fmt, each, plain=path.suffix == ".avro")


def _split(record: Any, number: int, fmt: Format) -> Keyed:
    fields = {field.name for field in fmt.schema.fields}
    if isinstance(record, dict) and set(record) == {"key", "value"} != fields:
        key = record["key"]
        return tuple(key.values()) if isinstance(key, dict) else key, record["value"]
    return number, record


def _value(path: Path, number: int, fmt: Format, held: Any, *, plain: bool) -> Value:
    try:
        return fmt.conform(held if plain else value_from_json(fmt, held))
    except StatemigrateError as error:
        raise error.but(
            summary=f"{path}, record {number}: {error.summary}",
            next_action="name the revision of the file's values with --from-revision, or correct "
            "the file",
        ) from error


def _avro(path: Path) -> Iterator[Any]:
    with path.open("rb") as stream:
        yield from read_container(stream, str(path))


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield _parsed(path, number, line)


def _parsed(path: Path, number: int, line: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise FormatError(
            "SM-FORMAT-017",
            f"{path}, line {number} is not JSON",
            expected="one JSON value a line",
            found=f"{shown(line.strip()[:60])} ({error})",
            next_action="correct the line, or name an Avro file that ends in .avro",
            path=str(path),
        ) from error
