"""`preview`: new code run on the last committed batches of a query, before it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    checkpoint_named,
    configuration,
    configured_mask,
    file_to_write,
    shared_options,
    target_option,
)
from statemigrate.cli.output import (
    cell_text,
    print_json,
    print_json_text,
    print_line,
    print_rows,
    print_sentence,
    progress_bar,
)
from statemigrate.cli.plan_command import size_text
from statemigrate.cli.rewrite_output import asked_for, input_options, named_values
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.preview import Difference, Preview

_MOST = 6
"""Examples that are printed of a store."""
_UNASKED: Mapping[str, Any] = {
    "like": None,
    "lock": None,
    "partitions": None,
    "provider": None,
    "conf": (),
    "offsets": (),
    "taken": (),
    "watermark": None,
}
"""Options of `rewrite` that no preview needs."""


@click.command(
    epilog="Example: statemigrate preview checkpoints/orders --code pipeline_2:orders "
    "--old-code pipeline:orders"
)
@checkpoint_named
@click.option(
    "--code", metavar="MODULE:FUNCTION", required=True, help="The new code, from streams to result."
)
@click.option(
    "--old-code",
    metavar="MODULE:FUNCTION",
    help="The code of the query, to find out what it does not compute twice in the same way.",
)
@input_options
@click.option(
    "--batches",
    type=click.IntRange(min=1, max=100),
    help="How many of the last committed batches are run again, 20 by default.",
)
@click.option(
    "--save",
    metavar="BUNDLE",
    type=click.Path(),
    help="Run nothing; write the state and the input of the batches to a new folder.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    help="How large the bundle may be, 1 GiB by default.",
)
@click.option(
    "--mask",
    metavar="COLUMN",
    multiple=True,
    help="With --save: replace the values of these columns; by default those of mask in the "
    "configuration.",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="With --save: keep all rows of this fraction of the keys.",
)
@click.option(
    "--sample-by",
    metavar="COLUMN",
    multiple=True,
    help="With --sample: a column of the keys, in each source and in all state.",
)
@click.option(
    "--source",
    "sources",
    metavar="NAME=MODULE:FUNCTION",
    multiple=True,
    help="A function from the Spark session to the stream that the code calls NAME.",
)
@click.option(
    "--accept",
    metavar="NAME:DIGITS",
    multiple=True,
    help="Accept the proposal of a question of the rewrite.",
)
@click.option(
    "--accept-new",
    is_flag=True,
    help="Let every new aggregate function begin as in an empty group.",
)
@click.option("--start", metavar="NAME=JSON", multiple=True, help="The first value of a new field.")
@click.option("--take", metavar="NAME=OLD", multiple=True, help="Old field or state for a new one.")
@click.option(
    "--watch",
    is_flag=True,
    help="Follow the running query: preview further batches as they come, until Ctrl-C.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option(
    "--html", metavar="FILE", callback=file_to_write, help="Also write the result as an HTML page."
)
@click.option(
    "--junit", metavar="FILE", callback=file_to_write, help="Also write it as JUnit XML, for CI."
)
@target_option
@shared_options()
@click.pass_obj
def preview(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    /,
    checkpoint: str,
    targets: dict[str, str],
    *,
    batches: int | None,
    save: str | None,
    max_bytes: int | None,
    mask: tuple[str, ...],
    sample: float | None,
    sample_by: tuple[str, ...],
    sources: tuple[str, ...],
    watch: bool,
    markdown: bool,
    html: str | None,
    junit: str | None,
    **given: Any,
) -> None:
    """Run new code on the last committed batches of CHECKPOINT, and compare the state.

    CHECKPOINT may be a bundle that --save has written, which needs no access to production.

    The command reads in Spark's log what each batch has read, copies the state before the first of
    them to a temporary folder, and runs the new code there on the same rows, with the same
    watermark and time. Where `plan` says so, the state is rewritten first. It reports which rows of
    state differ from the query's own, by key and by field. The query may be running, its checkpoint
    is only read, and its sink is never run.

    --old-code runs the old code on the same batches, twice. Fields that it does not compute again
    as the query has are noise: they are listed, and not compared.

    With --watch the command goes on with the batches that the query commits meanwhile. Old and new
    code keep the state that they have reached, and each preview is printed when it is made.

    What may differ stands in [tool.statemigrate.preview] of pyproject.toml. Exit code 0 if nothing
    else differs, 1 if something does.
    """
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.preview import preview as run_preview
    from statemigrate.formats import json_text

    if max_bytes is not None and save is None:
        raise click.UsageError("--max-bytes is for --save.")
    if (mask or sample is not None or sample_by) and save is None:
        raise click.UsageError("--mask, --sample and --sample-by are for --save.")
    if (sample is None) != (not sample_by):
        raise click.UsageError("--sample and --sample-by need each other.")
    if watch and save is not None:
        raise click.UsageError("--watch follows a query, and --save runs nothing.")
    known = configuration()
    opened = named_values("--source", sources)
    if save is not None:
        rows = {"mask": mask or known.mask, "sample": sample, "sample_by": sample_by}
        _save(settings, checkpoint, targets, save, batches, max_bytes, opened, {**given, **rows})
        return
    asked = asked_for({**_UNASKED, **given})
    differs: list[bool] = []

    def show(found: Preview) -> bool:
        _write(found, html, junit)
        if settings.json:
            print_json_text(json_text(found.to_json(), indent=None if watch else 2))
        elif markdown:
            for line in markdown_of(found):
                print_line(line)
        else:
            print_preview(found)
        differs.append(not found.is_expected)
        return True

    with (
        # Ctrl-C is how following a query ends.
        suppress(*((KeyboardInterrupt,) if watch else ())),
        spark_when_needed() as spark,
        progress_bar("batches run", shown=not settings.json) as progress,
    ):
        found = run_preview(
            checkpoint,
            batches=batches,
            sources=opened,
            expected=known.preview,
            targets=targets,
            mask=configured_mask(),
            watch=show if watch else None,
            progress=progress,
            **asked,
            **settings.of_all(spark),
        )
    if not watch:
        show(found)
    if any(differs):
        click.get_current_context().exit(1)


def _save(
    settings: Settings,
    checkpoint: str,
    targets: dict[str, str],
    save: str,
    batches: int | None,
    max_bytes: int | None,
    sources: dict[str, str],
    given: dict[str, Any],
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.preview import preview as run_preview
    from statemigrate.preview import MAX_BYTES

    if given["old_code"]:
        raise click.UsageError("--save takes the code of the query as --code, and no --old-code.")
    with spark_when_needed() as spark:
        found = run_preview(
            checkpoint,
            target=asked_for({**_UNASKED, **given})["target"],
            save=save,
            batches=batches,
            max_bytes=max_bytes or MAX_BYTES,
            sources=sources,
            targets=targets,
            mask=given["mask"],
            sample=given["sample"],
            sample_by=given["sample_by"],
            **settings.of_all(spark),
        )
    if settings.json:
        print_json(found.to_json())
        return
    first, last = found.batches[0], found.batches[-1]
    print_sentence(f"{found.path}: batches {first} to {last}, {size_text(found.size)}")
    if found.sample is not None:
        print_sentence(f"It has the rows of {100 * found.sample:g} % of the keys.")
    if found.masked:
        print_sentence(f"Replaced by pseudonyms: {', '.join(found.masked)}.")
    print_sentence(
        f"Preview new code on it: `statemigrate preview {argument(found.path)} --code "
        f"MODULE:FUNCTION --old-code {argument(found.code)}`"
    )


def _write(found: Preview, html: str | None, junit: str | None) -> None:
    """Write the files that were asked for; they show state, and only their owner can read them."""
    from statemigrate.commands.preview_page import preview_junit, preview_page
    from statemigrate.files import replacing

    for path, text_of in ((html, preview_page), (junit, preview_junit)):
        if path is not None:
            with replacing(Path(path), private=True) as stream:
                stream.write(text_of(found).encode())


def print_preview(found: Preview) -> None:
    """Print what differs in each store, examples, and what nobody has expected."""
    from statemigrate.commands.preview_page import PATHS

    first, last = found.batches[0].batch, found.batches[-1].batch
    print_sentence(f"{found.checkpoint}: batches {first} to {last}, with {found.code}")
    print_sentence(PATHS[found.path])
    print_sentence(
        "Compared with the state of the query."
        if found.old_code is None
        else f"Compared with {found.old_code}, run twice on the same batches."
    )
    for noise in found.noise:
        print_sentence(f"Not compared: {noise.store}.{noise.field}: {noise.cause}.")
    print_rows(("batch", "store", "rows", "added", "missing", "changed", "fields"), _rows(found))
    shown = [each for each in found.batches if any(not d.is_same for d in each.differences)]
    for each in shown[-1:]:
        for difference in each.differences:
            _print_examples(each.batch, difference)
    _print_square(found)
    for text in found.unexpected:
        print_sentence(text, mark="  not expected: ", style="bold red")
    if found.is_expected:
        print_sentence("Nothing differs but what is expected.")


def _rows(found: Preview) -> Iterator[tuple[str, ...]]:
    for each in found.batches:
        for one in each.differences:
            fields = [f"{name} {count:,}" for name, count in one.fields.items()]
            fields += [f"{name} new" for name in one.only_new]
            fields += [f"{name} gone" for name in one.only_old]
            counts = (f"{n:,}" for n in (one.rows, one.added, one.missing, one.changed))
            yield (str(each.batch), one.store, *counts, ", ".join(fields))


def _print_examples(batch: int, found: Difference) -> None:
    for each in found.examples[:_MOST]:
        key = ", ".join(f"{name}={cell_text(value)}" for name, value in each.key.items())
        print_sentence(f"batch {batch}, {found.store}, {key}: {_change(each.before, each.after)}")


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if before is None or after is None:
        row = after if before is None else before
        cells = ", ".join(f"{name}={cell_text(value)}" for name, value in (row or {}).items())
        return f"{'added' if before is None else 'missing'} {cells}"
    return ", ".join(
        f"{name} {cell_text(before[name])} -> {cell_text(value)}"
        for name, value in after.items()
        if name in before and repr(before[name]) != repr(value)
    )


def _print_square(found: Preview) -> None:
    if found.square is None:
        return
    differing = [each.store for each in found.square if not each.is_same]
    print_sentence(
        f"Migrated after the batches and before them, the state differs in {', '.join(differing)}."
        if differing
        else "Migrated after the batches and before them, the state is the same."
    )


def markdown_of(found: Preview) -> list[str]:
    """The preview as Markdown: a table of the stores, and what nobody has expected."""
    from statemigrate.commands.preview_page import PATHS
    from statemigrate.quoting import markdown_text

    first, last = found.batches[0].batch, found.batches[-1].batch
    lines = [
        f"### Preview of {markdown_text(found.code)}",
        "",
        f"Batches {first} to {last} of {markdown_text(found.checkpoint)}. {PATHS[found.path]}",
        "",
        "| store | added | missing | changed | fields |",
        "|---|---|---|---|---|",
    ]
    for store, *counts, fields in found.totals():
        texts = ", ".join(f"{name} {count:,}" for name, count in fields.items())
        cells = " | ".join(f"{each:,}" for each in counts if isinstance(each, int))
        lines.append(f"| {markdown_text(store)} | {cells} | {markdown_text(texts)} |")
    lines.append("")
    for noise in found.noise:
        lines.append(
            f"- not compared: {markdown_text(f'{noise.store}.{noise.field}: {noise.cause}')}"
        )
    lines += [f"- **not expected**: {markdown_text(text)}" for text in found.unexpected]
    if found.is_expected:
        lines.append("Nothing differs but what is expected.")
    return lines
