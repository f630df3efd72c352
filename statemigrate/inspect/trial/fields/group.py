"""Values of a dry run that have something in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from statemigrate.inspect.report.dry_run import Example

_KEYS = 5
_EXAMPLES = 3


@dataclass
class Group:
    """Values with something in common: how many, a few keys and examples, one error's own text."""

    values: int = 0
    note: str = ""
    keys: list[str] = field(default_factory=list)
    examples: list[tuple[str, str | None, str | None]] = field(default_factory=list)

    def add(self, other: Group) -> None:
        """Add another partition's."""
        self.values += other.values
        self.note = self.note or other.note
        self.keys = (self.keys + other.keys)[:_KEYS]
        self.examples = (self.examples + other.examples)[:_EXAMPLES]

    @property
    def wants_key(self) -> bool:
        """Whether it has too few keys yet."""
        return len(self.keys) < _KEYS

    @property
    def wants_example(self) -> bool:
        """Whether it has too few examples yet."""
        return len(self.examples) < _EXAMPLES

    def shown(self) -> tuple[Example, ...]:
        """The examples as a report has them."""
        return tuple(Example(*each) for each in self.examples)
