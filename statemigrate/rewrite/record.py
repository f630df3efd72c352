"""What the record of a rewrite keeps for later: aggregate functions, and hashes of the logs.

The aggregate functions of a rewrite as its report keeps them, and what follows from them.

What each new field comes from is worked out here once more, from the functions and the answers
alone: not by what made the plan, so that both have to be wrong in the same way to agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from statemigrate.errors import RewriteError
from statemigrate.rewrite.aggregate_pairing import PlacedFunction
from statemigrate.rewrite.family_plans import FamilyPlan, FunctionRows

if TYPE_CHECKING:
    pass


Document = Mapping[str, Any]


@dataclass(frozen=True)
class FieldSource:
    """Where a new field of an aggregation comes from: an old one, or a value to start with.

    ``computes`` is "sum" for the sum of a group that had none before it has rows, "isEmpty" for
    whether it has had none, "" for the old value itself.
    """

    label: str
    old: str | None
    computes: str = ""
    start: Any = None


def functions_document(family: FamilyPlan, starts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The functions of a family as its report has them; None of one that has none."""
    if not isinstance(family, FunctionRows):
        return None
    pairing = family.functions
    own = {name: value for name, value in starts.items() if name.startswith(f"{family.name}.")}
    olds = [each.old for each in pairing.pairs if each.old is not None]
    old = {each.at: each for each in (*olds, *pairing.gone)}
    return {
        "knows_old": pairing.knows_old,
        "labels": {"old": list(pairing.before), "new": list(pairing.after)},
        "old": [_placed(old[at]) for at in sorted(old)],
        "new": [{**_placed(each.new), "how": each.how} for each in pairing.pairs],
        "starts": {name.removeprefix(f"{family.name}."): value for name, value in own.items()},
    }


def _placed(each: PlacedFunction) -> dict[str, Any]:
    function = each.function
    return {
        "at": each.at,
        "text": function.text,
        "function": function.function,
        "meaning": _digest(function.meaning),
        "uncast": _digest(function.uncast),
        "fields": [list(field) for field in function.fields],
    }


def _digest(meaning: str) -> str:
    return sha256(meaning.encode()).hexdigest()[:32] if meaning else ""


def field_sources(
    store: str, document: Document, answers: Sequence[Mapping[str, str]]
) -> list[FieldSource]:
    """Where each new field comes from, by the functions and the ``answers`` of a report.

    Raises `RewriteError` where that is not known.
    """
    given = {each["name"]: each["answer"] for each in answers if each["kind"] == "take"}
    found: list[FieldSource] = []
    for new in document["new"]:
        labels = document["labels"]["new"][new["at"] : new["at"] + len(new["fields"])]
        old = _old_of(store, new, document, given.get(f"{store}.{labels[0]}"))
        if old is None:
            found += [FieldSource(label, None, start=document["starts"][label]) for label in labels]
        else:
            found += _computed(store, new, old, labels, document)
    return found


def _old_of(store: str, new: Document, document: Document, given: str | None) -> Document | None:
    if new["how"] in ("empty", "begun"):
        return None
    if given is not None:
        at = document["labels"]["old"].index(given)
        found = [each for each in document["old"] if each["at"] == at]
    elif new["how"] == "shape":
        found = [each for each in document["old"] if _fields(each) == _fields(new)]
    else:
        part = "meaning" if new["how"] == "same" else "uncast"
        found = [each for each in document["old"] if each[part] and each[part] == new[part]]
    if len(found) != 1:
        raise RewriteError(
            "SM-REWRITE-045",
            f"which old function {new['text']} of {store} goes on with is not known",
            expected="one old function that is the same",
            found=", ".join(each["text"] for each in found) or "none",
            next_action="report this, as it is a fault of statemigrate's",
            store=store,
        )
    old: Document = found[0]
    return old


def _fields(each: Document) -> str:
    return json.dumps(each["fields"], sort_keys=True)


def _computed(
    store: str, new: Document, old: Document, labels: Sequence[str], document: Document
) -> list[FieldSource]:
    names = [name for name, _ in new["fields"]]
    before = document["labels"]["old"][old["at"] : old["at"] + len(old["fields"])]
    if names == [name for name, _ in old["fields"]]:
        return [FieldSource(label, own) for label, own in zip(labels, before, strict=True)]
    if names == ["sum", "isEmpty"] and len(before) == 1:
        return [FieldSource(label, before[0], n) for label, n in zip(labels, names, strict=True)]
    raise RewriteError(
        "SM-REWRITE-045",
        f"{new['text']} of {store} does not have the fields of {old['text']}",
        expected=", ".join(names),
        found=", ".join(before),
        next_action="report this, as it is a fault of statemigrate's",
        store=store,
    )


_RULES = {"": "", "zero if null": "sum", "is null": "isEmpty"}


def check_functions(
    family: FamilyPlan, starts: Mapping[str, Any], answers: Sequence[Mapping[str, str]]
) -> None:
    """Raise `RewriteError` where a plan takes a field from elsewhere than its functions say."""
    document = functions_document(family, starts)
    if document is None or not isinstance(family, FunctionRows):
        return
    labels = set(document["labels"]["new"][document["new"][0]["at"] :]) if document["new"] else ()
    planned = [
        FieldSource(each.label, each.source, _RULES[each.rule])
        if each.place is not None
        else FieldSource(each.label, None, start=starts.get(f"{family.name}.{each.label}"))
        for each in family.value.fields
        if each.label in labels
    ]
    wanted = field_sources(family.name, document, answers)
    for one, other in zip(planned, wanted, strict=True):
        if one != other:
            raise RewriteError(
                "SM-REWRITE-045",
                f"{family.name}.{one.label} would be taken from another function",
                expected=str(other),
                found=str(one),
                next_action="nothing was written; report this, as it is a fault of statemigrate's",
                store=family.name,
            )
