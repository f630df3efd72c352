"""Settings of the session under which two versions of a query's code compute the same expression.

Spark has the same plan under either, and another result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from statemigrate.meaning.code_meaning import WITH_SETTINGS, CodeMeaning, OperatorMeaning
from statemigrate.meaning.plan_items import WARNING, PlanItem
from statemigrate.rewrite import (
    ANSI,
    DEFAULTS,
    EFFECTS,
    ZONE,
    in_any_session,
    settings_in,
    zones_in,
)

SETTING = "setting"
"""The rule of a setting of the session."""


@dataclass(frozen=True)
class Computed:
    """A part of an operator's meaning: the ``text`` of what it is computed from.

    ``words`` are what a person calls it. Parts of two versions are the same one by their ``kind``
    and ``where``.
    """

    kind: str
    where: str
    words: str
    text: str


def compare_settings(
    old: OperatorMeaning,
    new: OperatorMeaning,
    parts: Callable[[OperatorMeaning], Iterable[Computed]],
) -> Iterator[PlanItem]:
    """The settings that have changed for what is the same expression in two versions.

    ``parts`` are those of a version that count, with texts as they are compared.
    """
    is_known = min(old.format, new.format) >= WITH_SETTINGS
    same = _same_text(old, new)
    before, after = (_by_meaning(parts(each), same) for each in (old, new))
    found: dict[str, tuple[set[str], set[str], dict[str, None]]] = {}
    for part in before.keys() & after.keys():
        for name in EFFECTS:
            was, now = (_values(name, each[part]) for each in (before, after))
            if not is_known and name == ZONE:
                was, now = _zones(old, before[part]), _zones(new, after[part])
                # An older text has a zone also where it makes no difference.
                if was <= now or now <= was:
                    continue
            if was != now:
                both = found.setdefault(name, (set(), set(), {}))
                both[0].update(*was)
                both[1].update(*now)
                both[2][same(after[part][0].words)] = None
    for name, (was_found, now_found, words) in sorted(found.items()):
        is_answered = is_known or name == ZONE
        yield _item(new.name, name, (was_found, now_found), sorted(words), is_known=is_answered)


def _item(
    operator: str,
    name: str,
    values: tuple[set[str], set[str]],
    parts: Sequence[str],
    *,
    is_known: bool,
) -> PlanItem:
    was, now = (" and ".join(sorted(each)) or DEFAULTS.get(name, "none") for each in values)
    where = f"{EFFECTS[name]} ({', '.join(parts)})"
    if not is_known:
        text = f"it is {now}, and what is recorded is of an earlier release, which did not look at "
        text += f"it: {where}"
        return PlanItem(
            f"{operator} {name}", "unknown", text, operator, rule=SETTING, level=WARNING
        )
    text = f"it was {was}, and is {now}: {where}"
    if was == now:
        text = f"it was {was} for other parts of the same expressions: {where}"
    return PlanItem(f"{operator} {name}", "unnoticed", text, operator, rule=SETTING)


def unset_as_warnings(
    items: Iterable[PlanItem], old: CodeMeaning | None, new: CodeMeaning
) -> Iterator[PlanItem]:
    """The items, with a warning for the change of a setting that nothing has set on a side.

    Nothing says what the query has where it runs.
    """
    recorded = frozenset[str]() if old is None else old.unset
    for each in items:
        is_change = each.rule == SETTING and each.verdict == "unnoticed"
        name = setting_of(each)
        if is_change and name in new.unset | recorded:
            text = f"{each.text}. {_UNSET if name in new.unset else _UNSET_THEN}"
            yield replace(each, verdict="unknown", text=text, level=WARNING)
        else:
            yield each


_UNSET = (
    "Neither the code nor this session sets it: where the query runs it may be as it was. "
    "Set it in the code or in `spark` of [tool.statemigrate]"
)
_UNSET_THEN = (
    "Nothing had set it where the record was made, which was not where the query ran: it may "
    "have been as it is"
)


def recorded_settings(record: CodeMeaning) -> dict[str, str]:
    """The settings of a query that its state depends on, as far as its record has them."""
    return {name: each for name, each in record.settings.items() if name not in record.unset}


def setting_of(item: PlanItem) -> str:
    """The setting that an item of the rule `SETTING` is about."""
    return item.name.removeprefix(f"{item.operator} ")


def in_any_sessions(
    old: OperatorMeaning, new: OperatorMeaning
) -> tuple[OperatorMeaning, OperatorMeaning]:
    """Two versions of an operator with texts that settings of the session are left out of."""
    same = _same_text(old, new)
    return with_texts(old, same), with_texts(new, same)


def with_texts(operator: OperatorMeaning, made: Callable[[str], str]) -> OperatorMeaning:
    """An operator with other texts of what it is computed from."""
    return replace(
        operator,
        keys=tuple(replace(each, expression=made(each.expression)) for each in operator.keys),
        functions=tuple(
            replace(
                each,
                meaning=made(each.meaning),
                uncast=made(each.uncast),
                shown=made(each.shown),
            )
            for each in operator.functions
        ),
        facts=tuple(replace(each, text=made(each.text)) for each in operator.facts),
    )


def _same_text(old: OperatorMeaning, new: OperatorMeaning) -> Callable[[str], str]:
    """What makes the texts of two versions the same that differ by settings alone."""
    texts = [text for each in (old, new) for text in each.texts]
    return partial(
        in_any_session,
        # Spark has two fields for the one setting.
        of_any_mode=any(name == ANSI for text in texts for name, _ in settings_in(text)),
        with_try=min(old.format, new.format) >= WITH_SETTINGS,
    )


def _by_meaning(
    parts: Iterable[Computed], same: Callable[[str], str]
) -> Mapping[tuple[str, str, str], list[Computed]]:
    found = defaultdict(list)
    for each in parts:
        found[each.kind, each.where, same(each.text)].append(each)
    return found


def _values(name: str, parts: Sequence[Computed]) -> set[tuple[str, ...]]:
    """The values of a setting in the texts of parts, of each in their order."""
    return {tuple(value for key, value in settings_in(p.text) if key == name) for p in parts}


def _zones(operator: OperatorMeaning, parts: Sequence[Computed]) -> set[tuple[str, ...]]:
    if operator.format >= WITH_SETTINGS:
        return {(value,) for p in parts for key, value in settings_in(p.text) if key == ZONE}
    return {(zone,) for p in parts for zone in zones_in(p.text)}
