"""Draws `statemigrate demo` as a terminal, from a run of it: ``docs/demo.svg``.

Run as ``python scripts/picture_of_demo.py [FILE]``; it takes some minutes. What is drawn is what
the command prints at eighty columns, without the paragraphs that explain each act.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from statemigrate.cli.demo_command import DemoView
from statemigrate.demo.demo_size import DemoOptions
from statemigrate.demo.paths import DemoFolder
from statemigrate.demo.run import run_demo
from statemigrate.demo.story import ActBegun, Step

PICTURE = Path(__file__).parents[1] / "docs" / "demo.svg"
COMMAND = "statemigrate demo"
WIDTH = 80
# Dark on any page: the colours are told apart by their lightness too.
THEME = TerminalTheme(
    (23, 32, 37),
    (226, 234, 238),
    [
        *((23, 32, 37), (255, 138, 128), (128, 226, 160), (240, 190, 90)),
        *((128, 180, 255), (220, 170, 255), (79, 209, 191), (226, 234, 238)),
    ],
)
# A picture fetches nothing, so the fonts are those of whoever looks at it.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
)


def picture(steps: Iterable[Step]) -> str:
    """The steps of a demonstration as an SVG of the terminal they are shown in."""
    screen = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    screen.print(f"$ {COMMAND}", style="bold")
    with DemoView(screen, quiet=False) as view:
        for step in steps:
            view.show(replace(step, explanation="") if isinstance(step, ActBegun) else step)
    drawn = screen.export_svg(title=COMMAND, theme=THEME, code_format=FORMAT, unique_id="demo")
    return re.sub(r"\n\s*", "\n", drawn)


def main(arguments: list[str]) -> None:
    """Run the demonstration as it is by default, and draw it."""
    options = DemoOptions()
    with tempfile.TemporaryDirectory() as root:
        folder = DemoFolder.create(Path(root) / "demo", options)
        with closing(run_demo(options, folder)) as steps:
            drawn = picture(steps)
    Path(arguments[0] if arguments else PICTURE).write_text(drawn)


if __name__ == "__main__":
    main(sys.argv[1:])
