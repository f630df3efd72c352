"""`init`: a folder for scripts."""

from __future__ import annotations

import click

from statemigrate.cli.options import Settings, shared_options
from statemigrate.cli.output import console, print_json


@click.command(epilog="Example: statemigrate init")
@shared_options()
@click.pass_obj
def init(settings: Settings) -> None:
    """Make a folder for migration scripts.

    It holds script.py.mako, the template of new scripts, and versions/, where they go. A folder
    that is one already stays as it is.
    """
    from statemigrate.scripts import ScriptFolder

    folder = ScriptFolder.create(settings.migrations)
    if settings.json:
        print_json({"directory": str(folder.directory)})
    else:
        console().print(f"Migration scripts go to {folder.versions}")
        console().print("Next: statemigrate new STORE -m MESSAGE")
