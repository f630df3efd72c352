"""The group of all verbs. Each lives in a module that is loaded when it is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from functools import partial
from importlib import import_module
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import interruption, print_error, print_interrupted, print_unexpected
from statemigrate.configuration import project_folder
from statemigrate.errors import StatemigrateError, without_pyspark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


GROUPS = {
    "Look": {
        "plan": ("plan_command", "Report what happens to a query's state when its code changes."),
        "preview": (
            "preview_command",
            "Run new code on the last batches of a query, and compare its state.",
        ),
        "status": ("status_command", "Show how much is left to migrate, and the next step."),
        "history": ("scripts_commands", "List the scripts, or what was done to a checkpoint."),
        "get": ("view_commands", "Print the value of a key in a store."),
        "export": ("view_commands", "Write a store's keys and values to one file."),
        "sql": ("view_commands", "Ask the stores of a checkpoint in SQL."),
        "diff": ("view_commands", "Print what differs between two batches, or two checkpoints."),
        "browse": ("view_commands", "Show the state of a checkpoint in a browser."),
    },
    "Write": {
        "init": ("scripts_commands", "Make a folder for migration scripts."),
        "new": ("new_command", "Write a new migration script for a store."),
        "check": ("check_command", "Check all scripts, and the code that needs them."),
    },
    "Try": {
        "dry-run": ("dry_run_command", "Try a migration on a query's state, and write nothing."),
        "doctor": ("doctor_command", "Check the requirements of queries, and repair a checkpoint."),
        "explain": ("explain_command", "Explain an error code, an error of Spark, or a log."),
        "demo": ("demo_command", "Migrate a stream's state through a crash, and check every key."),
    },
    "Migrate": {
        "backfill": ("backfill_command", "Migrate the values that no live row touches, in chunks."),
        "rollback": ("rollback_command", "Migrate values back to an older revision, step by step."),
    },
    "Rewrite": {
        "rewrite": ("rewrite_command", "Make a new checkpoint from an old one, or from tables."),
        "fork": (
            "rewrite_command",
            "Copy a query's state, as it was after a batch, elsewhere.",
        ),
    },
}
"""The verbs as `--help` groups them; of each its module in `statemigrate.cli`, and a line."""

VERBS = {verb: each for verbs in GROUPS.values() for verb, each in verbs.items()}
"""Verb: the module in `statemigrate.cli` that has its command, and the one-line help."""

MOVED = {
    "adopt": "backfill --prepare",
    "current": "status --revisions",
    "edit": "new --edit REVISION",
    "heads": "history --heads",
    "lock": "check --write-lock FILE --code MODULE:FUNCTION",
    "log": "history --checkpoint CHECKPOINT",
    "quarantine": "status --failed STORE",
    "rebase": "new STORE --rebase",
    "repair": "doctor --repair",
    "retire": "backfill --retire",
    "seed": "rewrite --from-tables TABLE",
    "show": "history --show REVISION",
    "verify": "rewrite --verify",
}
"""Commands of earlier versions, and the one that took the place of each."""
_MOVED_CODE = "SM-CLI-006"

OF_ALEMBIC = {
    "upgrade": "Values migrate while the query runs: start the code for the new revision, then "
    "run `statemigrate backfill CHECKPOINT` for values that no row touches. "
    "`statemigrate dry-run STORE CHECKPOINT` tries the migration first",
    "downgrade": "Values also migrate back while the query runs: "
    "`statemigrate rollback CHECKPOINT --to REVISION` shows each step",
    "revision": "`statemigrate new STORE -m MESSAGE` writes a script; with "
    "`--autogenerate MODULE:OBJECT` from the code's declarations",
    "stamp": "A checkpoint's own files have its revision; "
    "`statemigrate status CHECKPOINT --revisions` shows it. "
    "`statemigrate new --from-checkpoint CHECKPOINT` records the state's current format. "
    "Name a script that you edited after it was applied with --accept-edited",
    "merge": "The scripts of a store must form one chain. If it has two heads, "
    "`statemigrate new STORE --rebase` puts one branch on top of the other, with the fields of "
    "both",
    "branches": "Each store has its own branch, and in it one chain. "
    "`statemigrate history --heads` lists the heads. If a store has two, "
    "`statemigrate new STORE --rebase` makes one chain of them",
    "ensure_version": "There is no version table: a checkpoint's own files have its revision, and "
    "`statemigrate status CHECKPOINT --revisions` shows it",
    "list_templates": "There is one template: `statemigrate init` puts it into the folder of "
    "scripts, and you may edit it",
}
"""Alembic's commands that have another form here, and what to do in place of each."""


class Verbs(click.Group):
    """Loads a verb's module when it is needed and turns errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the verbs in the order a user meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the verb, imported now."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"statemigrate.cli.{VERBS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; of one that is not there, say which it may have been."""
        if self.get_command(ctx, args[0]) is None:
            if args[0] in MOVED:
                now = MOVED[args[0]]
                ctx.fail(f"{_MOVED_CODE}: `statemigrate {args[0]}` is now `statemigrate {now}`.")
            if args[0] in OF_ALEMBIC:
                ctx.fail(f"No such command {args[0]!r}, which alembic has. {OF_ALEMBIC[args[0]]}.")
            from difflib import get_close_matches

            for close in get_close_matches(args[0], VERBS, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {close!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of verbs without loading any."""
        wide = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                rows = [(verb.ljust(wide), text) for verb, (_, text) in verbs.items()]
                formatter.write_dl(rows)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run as a program."""
        sys.excepthook = print_unexpected
        return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; exit with 1 after an error of this package or of the file system.

        Ctrl-C is neither success nor failure: the exit code is the one that shells give it.
        """
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            pressed = interruption(error)
            if pressed is not None:
                print_interrupted(pressed)
                ctx.exit(128 + SIGINT)
            expected = (isinstance(error, ImportError) and without_pyspark(error)) or error
            if isinstance(error, BrokenPipeError) or not isinstance(expected, _EXPECTED):
                raise
            print_error(expected, ctx.ensure_object(Settings))
            ctx.exit(1)


_EXPECTED = (StatemigrateError, OSError)


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: statemigrate new auctions -m 'split item and price'",
)
@click.version_option(package_name="statemigrate")
@shared_options(envvar="STATEMIGRATE_MIGRATIONS")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Migrate the live state of Spark Structured Streaming queries.

    Exit codes: 0 success, 1 a failed check or an error, 2 wrong arguments, 130 interrupted.
    """
    # Scripts may import the project's own modules, which `python -m` would find here too.
    here = Path.cwd()
    for folder in dict.fromkeys((str(here), str(project_folder(here) or here))):
        if folder not in sys.path:
            sys.path.append(folder)
            ctx.call_on_close(partial(sys.path.remove, folder))


# What Spark and Java say of themselves when they start is left out of a command's output.
#
# What they say of anything else is passed on, and who configures Spark's logging, or asks for
# ``--debug``, sees everything.


LOGGING = "-Dlog4j2.configurationFile"
_OWN = Path(__file__).parent / "log4j2.properties"
_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
"""Where Java's options, and so another configuration of the logging, may be given."""
_ENDINGS = ("properties", "xml", "yaml", "yml", "json", "jsn")
# Java says so of any program with such a module, and no option of its own keeps it from that.
_OF_JAVA = b"WARNING: Using incubator modules:"
# Spark's processes for `transformWithState` print each step, with an empty line after it.
_OF_WORKERS = re.compile(rb"(Starting )?Streaming \w+ Python worker\b")
_CHUNK = 1 << 16


def is_quiet() -> bool:
    """Whether Spark's own messages are left out: nobody has configured them, or asked for them."""
    folder = os.environ.get("SPARK_CONF_DIR", "")
    if folder and any((Path(folder) / f"log4j2.{ending}").exists() for ending in _ENDINGS):
        return False
    if any("log4j" in os.environ.get(name, "") for name in _OPTIONS):
        return False
    context = click.get_current_context(silent=True)
    return context is None or not getattr(context.obj, "debug", False)


def quiet_settings() -> dict[str, str]:
    """The settings that keep Spark's messages to itself; the user's own options count over them."""
    return {"spark.driver.defaultJavaOptions": f'"{LOGGING}={_OWN.as_uri()}"'}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process where there is none, and pass on what it says.

    ``settings`` are the session's, which the JVM is started with.
    """
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is not None:
        return
    launch: Any = java_gateway.launch_gateway
    gateway = launch(SparkConf().setAll(list(settings.items())), {"stderr": subprocess.PIPE})
    source = gateway.proc.stderr.fileno()
    threading.Thread(target=pass_on, args=(source, _write_to_stderr), daemon=True).start()
    context: Any = SparkContext
    context._ensure_initialized(gateway=gateway)


def pass_on(source: int, say: Callable[[bytes], None]) -> None:
    """Hand what comes from the file ``source`` to ``say``, but for what is always the same.

    That is what Java says of modules, and Spark's workers of their steps.
    """
    rest = b""
    is_after_step = False
    while data := os.read(source, _CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        output = b""
        for each in lines:
            is_step = _OF_WORKERS.match(each) is not None
            if not (is_step or each.startswith(_OF_JAVA) or (is_after_step and not each.strip())):
                output += each + b"\n"
            is_after_step = is_step
        if output:
            say(output)
    if rest:
        say(rest)


def _write_to_stderr(output: bytes) -> None:
    try:
        os.write(2, output)
    except OSError:
        # Nobody listens any more; Java is not to wait for that, and so the rest is still read.
        return
