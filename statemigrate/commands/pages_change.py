"""Where new code keeps an operator in pages and its checkpoint does not, or in other pages.

Such a change is a rewrite of its own, without the new code: `rewrite` with ``--pages`` or
``--no-pages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from statemigrate.checkpoint.operators import CheckpointShape, OperatorShape, kind_of, user_stores
from statemigrate.commands.new_code import Probed
from statemigrate.errors import RewriteError
from statemigrate.meaning import described_pages
from statemigrate.native import pages_name
from statemigrate.pages import PagesRecord, number_missing
from statemigrate.quoting import argument
from statemigrate.rewrite import RewriteOptions, operator_name


@dataclass(frozen=True)
class PagesChange:
    """An operator whose pages differ between a checkpoint and new code.

    ``was`` and ``now`` are its names on pages in the two, empty where it is on pages without a
    name, and None where it is not on pages. ``held`` is the number of its pages, 0 for none, and
    ``asked`` the number that the code gives, None where it gives none. ``is_alone`` says that the
    query has no other ``transformWithState``.
    """

    operator: OperatorShape
    was: str | None
    now: str | None
    held: int
    asked: int | None
    is_alone: bool = True

    @property
    def goes_in(self) -> bool:
        """Whether its state is to come into pages."""
        return self.was is None and self.now is not None

    @property
    def goes_out(self) -> bool:
        """Whether its state is to leave pages."""
        return self.was is not None and self.now is None

    @property
    def is_function(self) -> bool:
        """Whether it is no ``transformWithState`` yet: only a rewrite for new code makes it one."""
        return kind_of(self.operator.name).has_function

    @property
    def found(self) -> str:
        """What the checkpoint has."""
        return "a function's groups" if self.is_function else described_pages(self.was, self.held)

    @property
    def wanted(self) -> str:
        """What the code has."""
        return described_pages(self.now, self.asked or self.held)

    @property
    def name(self) -> str:
        """What `plan` calls it."""
        return f"{operator_name(self.operator)} pages"

    @property
    def options(self) -> str:
        """What `rewrite` needs to make the change."""
        pages = "--no-pages" if self.now is None else f"--pages {self.asked or self.held or 'N'}"
        is_named = self.now is not None and self.now != (self.was or "")
        if self.is_alone and not is_named:
            return pages
        which = self.was or str(self.operator.number)
        return f"{pages} --paged-operator {argument(f'{which}={self.now}' if is_named else which)}"

    def rewrite_options(self, location: str) -> RewriteOptions:
        """The same for the function `rewrite`. Raises `StartupError` for an unknown number."""
        number = 0 if self.now is None else self.asked or self.held
        if not number and self.now is not None:
            raise number_missing(location)
        name = self.now if self.now != (self.was or "") else None
        return RewriteOptions(pages=number, paged=self.was or self.operator.number, paged_name=name)

    @property
    def step(self) -> str:
        """The change as a step in words."""
        if self.now is None:
            return "Make a new checkpoint without pages"
        number = self.asked or self.held
        return f"Make a new checkpoint with the state in {described_pages(self.now, number)}" + (
            "" if number else "; choose their number N, and pass it in the code too"
        )


def pages_changes(
    shape: CheckpointShape, found: Probed, records: Mapping[str, PagesRecord]
) -> tuple[PagesChange, ...]:
    """Where the pages of the operators of a checkpoint and of new code differ.

    ``records`` are those of the checkpoint, by the operators' names on pages.
    """
    is_alone = is_only_processor(shape)
    after = {each.number: each for each in found.shape.operators}
    changes = []
    for each in shape.operators:
        kind = kind_of(each.name)
        if each.number not in after or not (kind.has_variables or kind.has_function):
            continue
        was, now = name_on_pages(each), name_on_pages(after[each.number])
        held = records[was].pages if was is not None and was in records else 0
        wanted = None if now is None else found.numbers.get(now)
        if was != now or (held and wanted is not None and wanted != held):
            changes.append(PagesChange(each, was, now, held, wanted, is_alone))
    return tuple(changes)


def name_on_pages(operator: OperatorShape) -> str | None:
    """An operator's name on pages, empty where it has none; None where it is not on pages."""
    return pages_name(user_stores(operator))


def is_only_processor(shape: CheckpointShape) -> bool:
    """Whether a query has one ``transformWithState`` at most."""
    return sum(kind_of(each.name).has_variables for each in shape.operators) < 2


def check_same_pages(changes: Iterable[PagesChange], location: str) -> None:
    """Raise `RewriteError` for code that keeps an operator in other pages than its checkpoint."""
    for each in changes:
        command = f"`statemigrate rewrite {argument(location)} NEW {each.options} --apply`"
        raise RewriteError(
            "SM-PAGES-042",
            f"the code keeps the state of {operator_name(each.operator)} elsewhere than {location}",
            expected=f"{each.found}, as in the checkpoint",
            found=each.wanted,
            next_action="rewrite the state for code without pages, and then into pages: "
            f"`statemigrate plan {argument(location)} --code MODULE:FUNCTION` has the steps"
            if each.is_function
            else f"{command} first, without the code; then look with `statemigrate plan` at what "
            "is left to do for NEW",
            path=location,
            operator=operator_name(each.operator),
        )
