"""The console of all commands. Loaded with the first output that it draws: rich takes a while."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from statemigrate.quoting import printable


class Screen(Console):
    """A console on which no text can act: an escape stands for each character nobody sees.

    Names, values and the texts of exceptions come from state and from scripts. Colours are the
    commands' own, and given as styles.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """The text that is drawn for a string."""
        return super().render_str(printable(text), **options)
