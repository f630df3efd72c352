"""What becomes of the families of an operator: by scripts, or by the names of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from statemigrate.checkpoint.operators import (
    FamilyShape,
    OperatorShape,
    StructJson,
    is_derived,
    is_numbered,
    is_timers,
    kind_of,
    shown_key,
)
from statemigrate.errors import RewriteError
from statemigrate.quoting import argument
from statemigrate.rewrite.aggregate_pairing import function_changes, pair_functions
from statemigrate.rewrite.aggregates import KnownFunctions
from statemigrate.rewrite.column_pairing import (
    FamilyAddress,
    counted_part,
    crosses,
    family_label,
    is_unused,
    old_families,
    part_of,
)
from statemigrate.rewrite.family_plans import (
    CountFamily,
    DerivedFamily,
    FamilyPlan,
    FunctionRows,
    JoinedFamily,
    MatchedEntries,
    MatchedRows,
    NewFamily,
    ScriptedEntries,
    ScriptedRows,
    TimeoutFamily,
    expiry_between,
    has_functions,
    keeps_kind,
    state_kind,
)
from statemigrate.rewrite.fields import (
    StructChange,
    Take,
    check_owners,
    match_fields,
    takes_of_parts,
)
from statemigrate.rewrite.script_ways import RewriteScripts, Scripted


def plan_families(
    old: OperatorShape,
    new: OperatorShape,
    take: Mapping[str, str],
    fields: Mapping[str, Take],
    scripts: RewriteScripts,
    functions: KnownFunctions | None = None,
) -> Iterator[FamilyPlan]:
    """Each family of the new operator, with where its rows come from.

    ``take`` has the author's matches of families and ``fields`` those of fields, by the names of
    new ones. With ``functions``, all that is known of both codes, buffers are paired by them; None
    is of values whose fields go by their names. Raises `RewriteError` for fields and families that
    do not fit, `UnsupportedError` for state that cannot be rewritten yet.
    """
    found = list(old_families(old, new, take))
    rekeyed = {
        part_of(old, source)
        for _, sources in found
        for source in sources
        if (script := scripts.open_of(family_label(old, source))) and script.changes_keys
    }
    for place, sources in found:
        name = family_label(new, place)
        own = fields.get(name, {})
        if is_derived(place.family.name):
            yield DerivedFamily(name, place)
        elif (
            not sources
            or is_unused(new, place.family)
            or (rekeyed and is_timers(place.family.name))
        ):
            # Timers have no value that a script could make another key of.
            yield NewFamily(name, place)
        elif len(sources) > 1:
            yield _joined(old, new, name, place, sources, own, scripts)
        else:
            (source,) = sources
            counted = counted_part(old, source)
            pair = _Pair(old, new, name, place, source, own)
            if crosses(old, new) and is_timers(place.family.name):
                yield TimeoutFamily(name, place, source)
            elif counted is not None and counted in rekeyed:
                yield CountFamily(name, place, source, counted)
            elif (script := scripts.between(family_label(old, source), name)) is not None:
                yield pair.scripted(script)
            elif functions is not None and has_functions(new):
                yield pair.by_functions(functions)
            else:
                yield pair.matched()


@dataclass(frozen=True)
class _Pair:
    """A family of the ``new`` operator, at ``place``, and the only one that it goes on with.

    ``take`` has the author's matches of its fields.
    """

    old: OperatorShape
    new: OperatorShape
    name: str
    place: FamilyAddress
    source: FamilyAddress
    take: Take

    def by_functions(self, functions: KnownFunctions) -> FunctionRows:
        """The plan of buffers of aggregate functions, which are paired as these are."""
        source, place = self.source.family, self.place.family
        key = self._key(source.key, place.key)
        before, after = source.content, place.content
        known = functions.old.get(self.old.number), functions.new.get(self.new.number)
        kept = _before_buffers(self.new, place)
        pairing = pair_functions(before, after, known, self.take, self.name, kept)
        value = function_changes(pairing, before, after, self.name, kept)
        return FunctionRows(self.name, self.place, self.source, key, value, pairing)

    def scripted(self, script: Scripted) -> ScriptedRows | ScriptedEntries:
        """The plan by a script: of whole rows where it can take them."""
        entries, family = self._scripted_entries(script), self.place.family
        is_plain = (
            keeps_kind(entries.old, entries.new)
            and entries.expiry == "never"
            and family.wrapping != "key"
            and not (family.user_key or entries.is_numbered)
            and not (family.is_list and (script.changes_keys or script.has_tables))
        )
        if is_plain:
            return ScriptedRows(self.name, self.place, entries.old, script)
        _check_tables(self.name, script)
        return entries

    def part(self, script: Scripted | None) -> MatchedEntries | ScriptedEntries:
        """The plan of one of the families that become one."""
        if script is None:
            return self._matched_entries()
        _check_tables(self.name, script)
        return self._scripted_entries(script)

    def _scripted_entries(self, script: Scripted) -> ScriptedEntries:
        store, family = self.place.store, self.place.family
        script.check(family.content, shown_key(self.new, store, family))
        taken = replace(self.source, family=script.taken_of(self.source.family))
        numbered = is_numbered(self.new, store, family)
        return ScriptedEntries(self.name, self.place, taken, script, numbered)

    def matched(self) -> MatchedRows | MatchedEntries:
        """The plan by the names of fields: of whole rows where each becomes one."""
        stays = expiry_between(self.source, self.place) in ("never", "kept")
        if not (stays and keeps_kind(self.source, self.place)):
            return self._matched_entries()
        key = self._key(self.source.family.key, self.place.family.key)
        return MatchedRows(self.name, self.place, self.source, key, self._content())

    def _matched_entries(self) -> MatchedEntries:
        before, after = (
            shown_key(operator, each.store, each.family)
            for operator, each in ((self.old, self.source), (self.new, self.place))
        )
        key = self._key(before, after)
        return MatchedEntries(self.name, self.place, self.source, key, self._content())

    def _key(self, before: StructJson, after: StructJson) -> StructChange:
        key = match_fields(before, after, self.take, self.name)
        _check_kind(self.name, self.source, self.place)
        _check_key(self.name, key, merges_alike=kind_of(self.new.name).is_set)
        return key

    def _content(self) -> StructChange:
        before, after = self.source.family.content, self.place.family.content
        return match_fields(before, after, self.take, self.name)


def _before_buffers(operator: OperatorShape, family: FamilyShape) -> int:
    """How many fields are in front of the buffers: in session windows the grouping columns.

    These are as many as the key has, which has the window's start in its place.
    """
    return len(family.key["fields"]) if kind_of(operator.name).has_sessions else 0


def _joined(
    old: OperatorShape,
    new: OperatorShape,
    name: str,
    place: FamilyAddress,
    sources: Sequence[FamilyAddress],
    take: Take,
    scripts: RewriteScripts,
) -> JoinedFamily:
    """The plan of a family whose rows come from several: each brought to one form, then merged."""
    script, form = scripts.new.get(name), place
    script = script if script is not None and script.is_open else None
    if script is not None:
        script.check(place.family.content, shown_key(new, place.store, place.family))
        form = _form(new, place, script)
    names = [family_label(old, each) for each in sources]
    # Scripts of the store that parts become are run on all of them together.
    parts = tuple(
        _Pair(old, new, name, form, source, own).part(
            None if known == name else scripts.open_of(known)
        )
        for known, source, own in zip(names, sources, takes_of_parts(names, take), strict=True)
    )
    if script is not None:
        _check_tables(name, script)
    elif not place.family.is_list:
        values = (each.value if isinstance(each, MatchedEntries) else None for each in parts)
        check_owners(name, dict(zip(names, values, strict=True)))
    return JoinedFamily(name, place, parts, script)


def _form(new: OperatorShape, place: FamilyAddress, script: Scripted) -> FamilyAddress:
    """What entries are that a script of several families takes."""
    shown = shown_key(new, place.store, place.family)
    return replace(place, family=script.taken_as(place.family, shown))


def _check_tables(name: str, script: Scripted) -> None:
    """Entries take along where they stood and when they expire, which no table tells of new keys.

    Raises `RewriteError` for a script that changes them in tables alone.
    """
    for step in script.path.steps:
        if step.key is not None and step.transform is None:
            raise RewriteError(
                "SM-REWRITE-013",
                f"the script of revision {step.target} changes keys of {name} in tables",
                expected="rekey(key, value) and upgrade(value) where entries are of a list, a map "
                "or a join, expire, or become another kind of state",
                found="upgrade_table and new_key, which do not tell which entry has become which",
                next_action=f"write rekey(key, value) and upgrade(value) in "
                f"{step.script or 'the script'}; nothing was written",
                store=name,
            )


def _check_key(name: str, key: StructChange, *, merges_alike: bool) -> None:
    if key.added:
        field = key.added[0].label
        raise RewriteError(
            "SM-REWRITE-014",
            f"{name}: the key has a new column {field}, and old rows do not say it",
            expected="for every old key a new one",
            found=f"no value of {field}",
            next_action=f"{_write(name)}, which says the new key of each row",
            store=name,
        )
    if key.dropped and not merges_alike:
        raise RewriteError(
            "SM-REWRITE-015",
            f"rows of {name} meet, since the key has no {key.dropped[0]} any more",
            expected="one row for each new key",
            found="for several old keys one new key",
            next_action=f"{_write(name)}, in which `merge` says what two rows make",
            store=name,
        )


def _write(name: str) -> str:
    """The command that writes a script with other keys."""
    return (
        f"write the script with `statemigrate new {argument(name)} -m MESSAGE --from-checkpoint "
        "OLD --code MODULE:FUNCTION`"
    )


def _check_kind(name: str, old: FamilyAddress, new: FamilyAddress) -> None:
    """Without a script a value becomes a list of one, and nothing else another kind."""
    before, after = state_kind(old), state_kind(new)
    if before != after and (before, after) != ("a value", "a list"):
        raise RewriteError(
            "SM-REWRITE-016",
            f"{name} becomes state of another kind, and only you can say how",
            expected=f"{before}, as it was",
            found=after,
            next_action=f"write a script for {name} with new_key and rekey(key, value), and "
            "merge(first, second) where entries meet under one key",
            store=name,
        )
