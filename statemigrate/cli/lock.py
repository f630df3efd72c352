"""`check --lock`: compares the meaning of code with a lock file, or records it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from statemigrate.cli.options import Settings, configuration
from statemigrate.cli.output import print_json, print_sentence
from statemigrate.cli.plan import print_items
from statemigrate.cli.rewrite import named_values
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.commands.lock import Locked


def compare_or_write(
    settings: Settings,
    code: str,
    file: str | None,
    inputs: tuple[str, ...],
    mode: str | None,
    *,
    check: bool,
    checkpoint: str | None,
) -> None:
    """Compare code with a lock file, or write that, or the record of ``checkpoint``."""
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.lock import LOCK
    from statemigrate.commands.lock import lock as lock_meaning

    path, schemas = file or LOCK, named_values("--input", inputs)
    with spark_when_needed() as spark:
        found = lock_meaning(
            code,
            file=path,
            inputs=schemas,
            mode=mode,
            check=check,
            checkpoint=checkpoint,
            rules=configuration().rules,
            spark=spark,
        )
    written = checkpoint or path
    if settings.json:
        print_json({"file": written, **found.to_json()})
    elif not check:
        names = [each.name for each in found.meaning.operators]
        print_sentence(f"{written}: {', '.join(names) or 'no stateful operator'}")
        print_sentence(
            "Next: deploy the query with `guarded`, which compares each start with the record"
            if checkpoint
            else "Next: review and commit it"
        )
    else:
        _print_checked(code, path, found)
    if found.asks:
        click.get_current_context().exit(1)


def _print_checked(code: str, path: str, found: Locked) -> None:
    if not found.changes:
        print_sentence(f"{code} means what {path} says.")
        return
    print_items(found.changes)
    print_sentence(
        f"Next: `statemigrate plan CHECKPOINT --code {argument(code)} --lock {argument(path)}` "
        f"says what to do; if the change is meant, `statemigrate check --code {argument(code)} "
        f"--write-lock {argument(path)}` writes the file again"
    )
