"""`sql`: the stores of a checkpoint, asked in SQL."""

from __future__ import annotations

from typing import Any

import click

from statemigrate.cli.options import (
    Settings,
    all_option,
    checkpoint_named,
    configuration,
    configured_mask,
    match_option,
    named_by,
    operator_option,
    require_values,
    shared_options,
    target_option,
)
from statemigrate.cli.output import cell_text, print_json_text, print_rows


@click.command(
    epilog="""Example: statemigrate sql 'SELECT count(*) FROM orders' /data/checkpoint"""
)
@click.argument("query")
@checkpoint_named
@all_option
@match_option
@click.option("--batch", type=int, metavar="N", help="Batch to read.  [default: the newest]")
@click.option(
    "--on-error",
    type=click.Choice(("raise", "null")),
    default="raise",
    help="What to do with a value that does not migrate: stop, or show nulls and an `_error`.",
)
@target_option
@operator_option
@shared_options()
@click.pass_obj
def sql(
    settings: Settings,
    /,
    query: str,
    *,
    checkpoint: str,
    every: bool,
    match: str | None,
    **options: Any,
) -> None:
    """Print the rows that QUERY, one SELECT, gives over the stores of a checkpoint.

    Each store is a table of its name, with the columns of its keys and values and with
    `_partition`, `_revision`, `_expires_at` and `_batch`. A name with a hyphen needs double quotes,
    as in `"aggregation-0"`. The query may be running. DuckDB answers; it opens no file, and nothing
    is written. It comes with `pip install 'statemigrate[sql]'`.

    --all opens every checkpoint that has a name in pyproject.toml, each a schema of its name, as in
    `SELECT * FROM orders."aggregation-0"`.
    """
    require_values("sql")
    if every and (checkpoint or options["batch"] is not None or settings.operator is not None):
        raise click.UsageError("--all takes checkpoints from pyproject.toml, at the newest batch.")
    if match and not every:
        raise click.UsageError("--match is for --all.")
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.sql import sql as selected

    known = configuration()
    with spark_when_needed() as spark:
        reading = settings.of_one(spark, stores=known.stores, mask=configured_mask(), **options)
        if every:
            found = selected(query, checkpoints=named_by(match), **reading)
        else:
            found = selected(query, checkpoint, **reading)
    if settings.json:
        from statemigrate.formats import json_text

        print_json_text(json_text(found.to_json(), indent=2))
        return
    print_rows(found.columns, ([cell_text(each) for each in row] for row in found.rows))
