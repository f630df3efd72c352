"""Names of a struct's fields that tell each of them.

Aggregation buffers go by Spark's own names, which repeat: ``count(*), sum(a), avg(b)`` keeps
``count, sum, sum, count``. The second of a name is ``sum_2``, a third would be ``sum_3``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any


def labelled(struct: dict[str, Any]) -> dict[str, Any]:
    """A struct in Spark's JSON form as users know it: each field by its label.

    What holds nothing, such as the value of ``dropDuplicates``, is left out: see `shown_places`.
    """
    fields = with_labels(struct)["fields"]
    return {**struct, "fields": [fields[place] for place in shown_places(struct)]}


def with_labels(struct: dict[str, Any]) -> dict[str, Any]:
    """A struct in Spark's JSON form with all of its fields, each by its label."""
    named = zip(struct["fields"], labels(struct), strict=True)
    return {**struct, "fields": [{**field, "name": label} for field, label in named]}


def shown_places(struct: dict[str, Any]) -> list[int]:
    """The places of the fields that can hold something."""
    return [place for place, field in enumerate(struct["fields"]) if field["type"] != "void"]


def labels(struct: dict[str, Any]) -> tuple[str, ...]:
    """A name for each field of a struct in Spark's JSON form, in order, none of them twice."""
    names = [str(field["name"]) for field in struct["fields"]]
    taken, seen, found = set(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        label, number = name, seen[name]
        while number > 1 and (label == name or label in taken):
            label, number = f"{name}_{number}", number + 1
        taken.add(label)
        found.append(label)
    return tuple(found)
