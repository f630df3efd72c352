"""Trying a migration on the state a query has, and writing nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from statemigrate import errors
from statemigrate.checkpoint.operators import with_labels
from statemigrate.deployment import StorePlan
from statemigrate.errors import (
    FormatError,
    LineageError,
    StartupError,
    StatemigrateError,
    values_hidden,
)
from statemigrate.files import parse_json
from statemigrate.formats import Format, Value, struct_from_json, value_from_json
from statemigrate.formats.avro import read_container
from statemigrate.inspect.dry_run_report import DryRunReport, Meetings, ScriptNote
from statemigrate.inspect.estimate import Pace, estimated
from statemigrate.inspect.field_effects import shown
from statemigrate.inspect.laws import inverses_of
from statemigrate.inspect.rewrite_trial import NewKeys, RewritingTrialPath
from statemigrate.inspect.trial import Findings, ValueTrial, added
from statemigrate.inspect.trial_path import TrialPath, Trying, courses
from statemigrate.migration import Lineage, Step
from statemigrate.state import Share, Shares, State

Counts = Mapping[str, Mapping[int, int]]
Progress = Callable[[int, int], None]


def check_sample(sample: int | None) -> None:
    """Raise `StartupError` for a sample that is none."""
    if sample is not None and sample < 1:
        raise StartupError(
            "SM-CLI-005",
            "a sample needs at least one value",
            expected="a number of 1 or more",
            found=sample,
            next_action="leave --sample out to try every value",
        )


def read_lineages(migrations: str | Path, store: str) -> dict[str, Lineage]:
    """The lineages of a folder in which nothing is wrong.

    Raises `LineageError` where ``store`` has no script, and what is wrong with its scripts.
    """
    from statemigrate.scripts import ScriptFolder

    return ScriptFolder(migrations).sound_lineages(store)


def tried(
    state: State, plan: StorePlan, sample: int | None, pace: Pace, progress: Progress
) -> DryRunReport:
    """Take the values of a store through its scripts, all of them or about ``sample``.

    ``progress`` gets how many values were read, and of how many.
    """
    store = plan.declared.store
    to_try = _courses(state, plan)
    counts = state.counts(store)
    total = sum(sum(counts.get(each.family.name, {}).values()) for each in to_try)
    began = time.monotonic()
    documents = state.values(plan, [each.family for each in to_try]).map(
        Trying.of(to_try),
        shares=shared(to_try, counts, sample),
        tick=lambda done: progress(done, total),
    )
    found = added(documents)
    rewrites = store in state.operator_stores or any(
        isinstance(each, RewritingTrialPath) for each in to_try
    )
    return DryRunReport(
        store=store,
        kind=plan.declared.kind,
        engine=state.engine,
        checkpoint=state.checkpoint,
        batch=state.batch,
        target=plan.target.revision,
        sample=sample,
        in_target=sum(counts.get(plan.target.name, {}).values()),
        families=tuple(
            found.get(each.family.name, Findings()).described(
                each.family.name,
                each.family.revision,
                reversible=each.back is not None,
                steps=each.path.steps,
            )
            for each in to_try
        ),
        seconds=time.monotonic() - began,
        backfill=None if rewrites else estimated(state, to_try, counts, found, pace),
        questions=open_questions(
            plan.lineage, [step for each in to_try for step in each.path.steps]
        ),
        rewrites=rewrites,
        meetings=_meetings(state, plan, to_try) if sample is None else None,
        scripts=script_notes(plan.lineage, [step for each in to_try for step in each.path.steps]),
        made_at=time.time(),
        version=version("statemigrate"),
    )


def _courses(state: State, plan: StorePlan) -> tuple[TrialPath, ...]:
    user_key = plan.declared.user_key
    columns = [
        each
        for part in (state.key_of(plan.declared.store), user_key)
        if part is not None
        for each in part.jsonValue()["fields"]
    ]
    key = struct_from_json(with_labels({"type": "struct", "fields": columns}))
    return tuple(
        RewritingTrialPath(**vars(each), key=key) if each.path.only_by_rewriting else each
        for each in courses(plan)
    )


def _meetings(state: State, plan: StorePlan, tried: Sequence[TrialPath]) -> Meetings | None:
    changing = [
        each for each in tried if isinstance(each, RewritingTrialPath) and each.changes_keys
    ]
    for trial_path in changing:
        keys = NewKeys(trial_path.path, trial_path.family.format, trial_path.key)
        found = state.keys_after(plan, trial_path.family, keys)
        examples = (
            ()
            if values_hidden()
            else tuple((shown(keys.plain(each)), number) for each, number in found.examples)
        )
        # Which kind of state the new code has there, only a rewrite sees.
        gather = plan.declared.variable_kind.has_several_values
        return Meetings(found.entries, found.keys, found.met, trial_path.merges, examples, gather)
    return None


def open_questions(lineage: Lineage, steps: Sequence[Step]) -> int:
    """How many questions are open in the scripts of these steps."""
    revisions = {step.revision for step in steps}
    return sum(len(each.questions) for each in lineage.migrations if each.revision in revisions)


def script_notes(lineage: Lineage, steps: Sequence[Step]) -> tuple[ScriptNote, ...]:
    """The scripts of these steps, each once, in the order of the lineage."""
    directions = {step.revision: step.direction for step in steps}
    return tuple(
        ScriptNote(each.revision, directions[each.revision], each.message)
        for each in lineage.migrations
        if each.revision in directions
    )


def shared(to_try: Sequence[TrialPath], counts: Counts, sample: int | None) -> Shares:
    """How much of each partition of each family is tried, in proportion to what it holds."""
    sizes = {
        (trial_path.family.name, number): count
        for trial_path in to_try
        for number, count in counts.get(trial_path.family.name, {}).items()
    }
    total = sum(sizes.values())
    wanted = total if sample is None else min(sample, total)
    shares: dict[str, dict[int, Share]] = {trial_path.family.name: {} for trial_path in to_try}
    before = 0
    for (family, number), count in sizes.items():
        # Rounding the running sum, so that the parts add up to the sample.
        take = (before + count) * wanted // total - before * wanted // total if total else 0
        shares[family][number] = Share(take, max(count, 1))
        before += count
    return shares


# Trying a migration on values in a file, where the state itself is out of reach.


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


def _trial(lineage: Lineage, source: str, target: str) -> ValueTrial:
    back = lineage.missing_downgrade(target, source)
    return ValueTrial(
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
            found=f"{errors.shown(line.strip()[:60])} ({error})",
            next_action="correct the line, or name an Avro file that ends in .avro",
            path=str(path),
        ) from error
