"""`new`: the verb that writes scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import (
    Settings,
    chosen_mode,
    configuration,
    operator_option,
    shared_options,
)
from statemigrate.cli.output import console, print_json
from statemigrate.cli.rewrite_output import input_options, lock_option, new_code_of, old_code_option
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from statemigrate.commands.new_script import NewScript
    from statemigrate.formats import Format
    from statemigrate.migration import OpenQuestion


def _renames(
    ctx: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    pairs: tuple[str, ...],
) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    for old, _, new in split:
        if not old or not new:
            raise click.UsageError("--rename takes OLD=NEW, as in name=item.title.")
    return {old: new for old, _, new in split}


@click.command(
    epilog="Example: statemigrate new auctions -m 'split item and price' "
    "--autogenerate pipeline.totals:Totals"
)
@click.argument("store", required=False)
@click.option("-m", "--message", help="What changes, in one line.")
@click.option(
    "--from",
    "old",
    metavar="FORMAT",
    help="Format of the first script's `old`: Spark DDL, or the path of an .avsc file.",
)
@click.option("--to", "new", metavar="FORMAT", help="Format to fill in as `new`, likewise.")
@click.option("--baseline", is_flag=True, help="Only record the current format of the state.")
@click.option(
    "--autogenerate",
    "reference",
    metavar="MODULE:OBJECT",
    help="Write `new`, `upgrade` and `downgrade` from this processor's declarations; without "
    "STORE, a script for each of its changed stores.",
)
@click.option(
    "--from-checkpoint",
    "checkpoint",
    metavar="PATH",
    help="Record the format of the state in this checkpoint; without STORE, of each store "
    "without a script. With --rebase: the branch that was applied to this checkpoint stays. With "
    "--edit and --lens: prove them on its values too.",
)
@click.option(
    "--like",
    metavar="PROBE",
    help="With --from-checkpoint: write the migration from its operators' state to that in PROBE, "
    "a checkpoint that the new code made on any input.",
)
@click.option(
    "--code",
    metavar="MODULE:FUNCTION",
    help="With --from-checkpoint: write the migration to the state of this code, from streams to "
    "the result, also where only the keys are computed from something else.",
)
@input_options
@old_code_option
@lock_option
@click.option(
    "--rebase",
    is_flag=True,
    help="Make one chain of STORE's two heads, after a merge, in place of a new script.",
)
@click.option(
    "--onto", metavar="REVISION", help="With --rebase: the head of the branch that stays."
)
@click.option(
    "--apply",
    is_flag=True,
    help="With --rebase, --squash, or --edit and --lens: write the scripts.  "
    "[default: only show them]",
)
@click.option(
    "--edit",
    metavar="REVISION",
    help="Open this script in your editor, and then show it, in place of writing a new one. With "
    "--lens: put lenses in the place of its functions.",
)
@click.option(
    "--squash",
    metavar="REVISION",
    help="Make one script of STORE's scripts up to this one, if no checkpoint needs the others.",
)
@click.option(
    "--accept-unknown",
    metavar="NAME",
    multiple=True,
    help="With --squash: checkpoint that need not be read, by its name, or `unknown` for those "
    "that the configuration does not name; may be repeated.",
)
@click.option(
    "--lens/--functions",
    "lens",
    default=None,
    help="With --to, --autogenerate or --like: declare the change, or write functions.  "
    "[default: lenses where they say all that differs]",
)
@click.option(
    "--rename",
    metavar="OLD=NEW",
    multiple=True,
    callback=_renames,
    help="Field of the old format that has another name in the new one; may be repeated.",
)
@operator_option
@shared_options()
@click.pass_obj
def new(  # noqa: PLR0912, PLR0913 - an option each
    settings: Settings,
    store: str | None,
    *,
    message: str | None,
    old: str | None,
    new: str | None,
    baseline: bool,
    reference: str | None,
    checkpoint: str | None,
    like: str | None,
    code: str | None,
    inputs: tuple[str, ...],
    mode: str | None,
    old_code: str | None,
    lock: str | None,
    rebase: bool,
    onto: str | None,
    apply: bool,
    edit: str | None,
    squash: str | None,
    accept_unknown: tuple[str, ...],
    lens: bool | None,
    rename: dict[str, str],
) -> None:
    """Write a new migration script for STORE.

    It follows the store's newest script and has that script's format as `old`. You fill in the
    missing formats and `upgrade`. For a store's first script, --to alone makes a baseline, which
    records the current format of the state. If lenses say all that differs between two formats, the
    script declares them; a field has another name only where --rename says so. --from-checkpoint
    and --to write all that a store's first change needs: the folder, the record of the format that
    the state has, and the script.

    With --from-checkpoint and --code, for state of Spark's own operators, the script makes the keys
    and values of the new code of the old ones, for `rewrite`. A new key is computed from the old
    key, and values of two keys that become one are merged, as far as the code says how; --old-code
    or --lock names the code that wrote the state. The rest is a QUESTION in the script.

    A store has two heads if two people each wrote a script on the same one. With --rebase, the
    branch that was applied stays, or else the older one. The scripts of the other branch follow it,
    and their formats get the fields of both branches. Their functions pass on fields that they do
    not know. If only one branch has a field, or if both have changed it, the script gets a
    QUESTION, and `statemigrate check` refuses it until you have answered.

    --edit uses the editor in VISUAL, or in EDITOR, or else the first common editor that it finds.
    REVISION is as in `history --show`. The exit code is 1 if the script has a problem.

    With --edit and --lens, the command finds lenses that do what the script's functions do, and
    shows the script with them. It runs both on values made up from the formats, and on those in
    --from-checkpoint. If they differ, or if a field has no lens, it shows these with the smallest
    value, writes nothing, and the exit code is 1. --apply writes the script.

    --squash makes one script of those up to REVISION, with the lenses of all if all have lenses. It
    reads every checkpoint that the configuration names: none of them may have values of a revision
    that would be gone. The other scripts are copied to squashed/ next to versions/.
    """
    chosen_mode(
        {
            "rebase": ("store", "onto", "apply", "checkpoint"),
            "edit": ("lens", "checkpoint", "apply", "operator"),
            "squash": ("store", "apply", "accept_unknown"),
        },
        (
            "store",
            "message",
            "old",
            "new",
            "baseline",
            "reference",
            "checkpoint",
            "like",
            "code",
            "inputs",
            "mode",
            "old_code",
            "lock",
            "operator",
            "lens",
            "rename",
        ),
    )
    how = {"lens": lens, "rename": rename}
    if edit is not None:
        _edit(settings, edit, checkpoint, lens, apply=apply)
        return
    if squash is not None:
        from statemigrate.cli.script_edits import squash as squashed

        if store is None:
            raise click.UsageError("Missing argument 'STORE'.")
        squashed(settings, store, squash, accept_unknown, apply=apply)
        return
    if rebase:
        from statemigrate.cli.script_edits import rebase as put_on_top

        if store is None:
            raise click.UsageError("Missing argument 'STORE'.")
        put_on_top(settings, store, checkpoint, onto, apply=apply)
        return
    is_change = checkpoint is not None and new is not None and like is None
    _check_usage(reference, checkpoint, formats=bool(old or baseline or (new and not is_change)))
    if like is not None and checkpoint is None:
        raise click.UsageError("--like needs --from-checkpoint, the state that there is.")
    if code is not None and (checkpoint is None or new is not None or like is not None):
        raise click.UsageError("--code needs --from-checkpoint, without --to and --like.")
    if code is None and (inputs or mode or old_code or lock):
        raise click.UsageError("--input, --output-mode, --old-code and --lock need --code.")
    if (like or code) is not None and message is None:
        raise click.UsageError("Missing option '-m' / '--message'.")
    if is_change:
        if store is None or message is None:
            raise click.UsageError("--from-checkpoint with --to needs STORE and --message.")
        _change(settings, str(checkpoint), store, message, _format(new), how)
    elif code is not None:
        target = {"code": code, "inputs": inputs, "mode": mode, "like": None}
        target |= {"old_code": old_code, "lock": lock}
        _for_code(settings, str(checkpoint), target, str(message), store)
    elif checkpoint is not None and like is not None:
        _like(settings, checkpoint, like, str(message), store, how)
    elif checkpoint is not None:
        _from_checkpoint(settings, checkpoint, message, store)
    elif message is None:
        raise click.UsageError("Missing option '-m' / '--message'.")
    elif reference is not None:
        _autogenerate(settings, reference, message, store, how)
    elif store is None:
        raise click.UsageError("Missing argument 'STORE'.")
    else:
        _write(settings, store, message, _format(old), _format(new), baseline, how)


def _edit(
    settings: Settings, edit: str, checkpoint: str | None, lens: bool | None, *, apply: bool
) -> None:
    if lens:
        from statemigrate.cli.script_edits import declare_lenses

        declare_lenses(settings, edit, checkpoint, apply=apply)
        return
    if lens is not None or checkpoint is not None or apply:
        raise click.UsageError("--edit takes --from-checkpoint and --apply with --lens.")
    from statemigrate.cli.scripts_commands import print_details
    from statemigrate.commands.scripts import edit as edited

    print_details(settings, edited(edit, migrations=settings.migrations))


def _check_usage(reference: str | None, checkpoint: str | None, *, formats: bool) -> None:
    if reference is not None and formats:
        raise click.UsageError("--autogenerate finds the formats: leave out the others.")
    if checkpoint is not None and (formats or reference is not None):
        raise click.UsageError("--from-checkpoint finds the format: leave out the others.")


def _change(
    settings: Settings,
    checkpoint: str,
    store: str,
    message: str,
    new: Format | None,
    how: dict[str, Any],
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.new_script import change

    assert new is not None, "the option was given"  # noqa: S101
    with spark_when_needed() as spark:
        written = change(
            checkpoint,
            store,
            message,
            new,
            **how,
            **settings.of_one(spark, stores=configuration().stores),
        )
    if settings.json:
        print_json([_document(script) for script in written])
        return
    screen = console()
    for script in written:
        what = ": the format that the state has" if script.is_baseline else ""
        screen.print(f"Wrote {script.path}{what}")
    for line in _answer(written[-1].questions):
        screen.print(line)
    is_declared = written[-1].is_declared
    for step in _next_steps(store, baseline=is_declared, has_new=True, checkpoint=checkpoint):
        screen.print(f"Next: {step}")


def _from_checkpoint(
    settings: Settings, checkpoint: str, message: str | None, store: str | None
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.new_script import MESSAGE, baseline

    with spark_when_needed() as spark:
        written = baseline(
            checkpoint,
            message or MESSAGE,
            store=store,
            **settings.of_one(spark, stores=configuration().stores),
        )
    if settings.json:
        print_json([_document(script) for script in written])
        return
    screen = console()
    if not written:
        screen.print("Nothing to record: every store of the checkpoint has scripts")
    for script in written:
        screen.print(f"Wrote {script.path}")
        screen.print(f"Next: statemigrate history --show {argument(script.store)}")


def _write(
    settings: Settings,
    store: str,
    message: str,
    old: Format | None,
    new: Format | None,
    baseline: bool,
    how: dict[str, Any],
) -> None:
    from statemigrate.commands.new_script import new as write

    script = write(
        store, message, old=old, new=new, baseline=baseline, migrations=settings.migrations, **how
    )
    steps = _next_steps(store, script.is_baseline or script.is_declared, new is not None)
    if settings.json:
        print_json(
            {
                "path": str(script.path),
                "store": store,
                "baseline": script.is_baseline,
                "next": steps,
            }
        )
        return
    screen = console()
    screen.print(f"Wrote {script.path}")
    if script.is_baseline and not baseline:
        screen.print(
            f"Store {store} had no script: this one records the format of --to as the one that its "
            "state has today"
        )
        screen.print("If the state has another one: remove the script, and name that with --from")
    for line in _answer(script.questions):
        screen.print(line)
    for step in steps:
        screen.print(f"Next: {step}")


def _like(
    settings: Settings,
    checkpoint: str,
    like: str,
    message: str,
    store: str | None,
    how: dict[str, Any],
) -> None:
    from statemigrate.commands.new_script import autogenerate_like

    written = autogenerate_like(
        checkpoint,
        like,
        message,
        store=store,
        migrations=settings.migrations,
        stores=configuration().stores,
        **how,
    )
    _print_written(settings, written, "the state of both is the same")


def _for_code(
    settings: Settings, checkpoint: str, target: dict[str, Any], message: str, store: str | None
) -> None:
    from statemigrate.cli.session import spark_when_needed
    from statemigrate.commands.script_for_code import autogenerate_for

    with spark_when_needed() as spark:
        written = autogenerate_for(
            checkpoint,
            new_code_of(target),
            message,
            store=store,
            migrations=settings.migrations,
            stores=configuration().stores,
            spark=spark,
        )
    _print_written(settings, written, "the code keeps the same state by the same keys", checkpoint)


def _autogenerate(
    settings: Settings, reference: str, message: str, store: str | None, how: dict[str, Any]
) -> None:
    from statemigrate.commands.new_script import autogenerate

    written = autogenerate(reference, message, store=store, migrations=settings.migrations, **how)
    _print_written(settings, written, "the code declares the head's format")


def _print_written(
    settings: Settings, written: Sequence[NewScript], nothing: str, checkpoint: str | None = None
) -> None:
    if settings.json:
        print_json([_document(script) for script in written])
        return
    screen = console()
    if not written:
        screen.print(f"Nothing to migrate: {nothing}")
    for script in written:
        screen.print(f"Wrote {script.path}")
        for line in _remarks(script, checkpoint):
            screen.print(line)


def _document(script: NewScript) -> dict[str, Any]:
    return {
        "path": str(script.path),
        "store": script.store,
        "baseline": script.is_baseline,
        "questions": [asdict(question) for question in script.questions],
    }


def _remarks(script: NewScript, checkpoint: str | None) -> list[str]:
    if script.is_baseline and checkpoint is not None:
        return ["It records the format and the keys that the state has"]
    if script.is_baseline:
        return [
            f"Store {script.store} had no script: this one records the format the code declares"
        ]
    next_command = f"statemigrate history --show {argument(script.store)}"
    if checkpoint is not None:
        next_command = f"statemigrate dry-run {argument(script.store)} {argument(checkpoint)}"
    return [*_answer(script.questions), f"Next: {next_command}"]


def _answer(asked: Sequence[OpenQuestion]) -> list[str]:
    if not asked:
        return []
    questions = "1 question" if len(asked) == 1 else f"{len(asked)} questions"
    return [f"Next: answer {questions}, each a comment `# QUESTION:` in the script"]


def _format(text: str | None) -> Format | None:
    from statemigrate.formats import Avro, Struct

    if text is None:
        return None
    return Avro(Path(text)) if text.endswith(".avsc") else Struct(text)


def _next_steps(
    store: str, baseline: bool, has_new: bool, checkpoint: str | None = None
) -> list[str]:
    formats = [] if has_new else ["write the format in `new`, and check `old`"]
    functions = [] if baseline else ["write `upgrade`, and `downgrade` if there is a way back"]
    if checkpoint is not None:
        dry_run = f"statemigrate dry-run {argument(store)} {argument(checkpoint)}"
        return [*formats, *functions, f"{dry_run} tries it on the state"]
    return [*formats, *functions, f"statemigrate history --show {argument(store)}"]
