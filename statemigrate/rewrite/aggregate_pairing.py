"""Which old function each aggregate function of the new code goes on with.

A function's fields stay together and in order, and whole functions are paired. Where the code of
both is known, by what they compute. Else a name and a type say nothing of what was computed: what
looks the same is proposed, and asked about, and what may be several is asked without a proposal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from statemigrate.checkpoint.operators import labels
from statemigrate.errors import RewriteError
from statemigrate.quoting import argument
from statemigrate.rewrite.aggregates import (
    AggregateFunction,
    BufferField,
    derived,
    divided,
    fields_agree,
    fields_of,
    fields_text,
    rules_between,
)
from statemigrate.rewrite.column_pairing import is_same
from statemigrate.rewrite.fields import FieldOrigin, Struct, StructChange, Take, match_fields

How = Literal["same", "derived", "shape", "named", "begun", "empty", "open"]
"""By code, the same or computed from the old one; by its fields alone; as the author says; begun
with what the author says; new to the operator; or not known."""
EMPTY = "-"
"""Said with --take of a function that goes on with none."""


@dataclass(frozen=True)
class PlacedFunction:
    """A function, and the place of its first field; ``is_known`` to be one, and whole."""

    function: AggregateFunction
    at: int
    is_known: bool = True

    @property
    def end(self) -> int:
        """The place behind its last field."""
        return self.at + len(self.function.fields)


@dataclass(frozen=True)
class FunctionPair:
    """A ``new`` function and the ``old`` one that it goes on with.

    ``candidates`` are the labels where old ones begin that it may go on with, where that is open.
    """

    new: PlacedFunction
    how: How
    old: PlacedFunction | None = None
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class FunctionPairing:
    """The functions of an operator: those of the new code in order, and old ones that go.

    ``before`` and ``after`` are the labels of all fields, ``knows_old`` whether the old code was
    seen.
    """

    pairs: tuple[FunctionPair, ...]
    gone: tuple[PlacedFunction, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    knows_old: bool

    def label(self, pair: FunctionPair) -> str:
        """What a new function goes by: the label of its first field."""
        return self.after[pair.new.at]

    def labels(self, pair: FunctionPair) -> tuple[str, ...]:
        """The labels of a new function's fields."""
        return self.after[pair.new.at : pair.new.end]


def pair_functions(
    old: Struct,
    new: Struct,
    known: tuple[Sequence[AggregateFunction] | None, Sequence[AggregateFunction] | None],
    take: Take,
    store: str,
    kept: int = 0,
) -> FunctionPairing:
    """Pair the functions whose fields two structs have, behind ``kept`` ones of something else.

    ``known`` are the functions of the old code and of the new one, None where it was not seen.
    Raises `RewriteError` where they do not have the fields that the structs do, and for what the
    author says that does not fit.
    """
    pairing = _Pairing(
        _placed(old, known[0], kept, store, "old"),
        _placed(new, known[1], kept, store, "new"),
        fields_of(old),
        labels(old),
        labels(new),
        known[0] is not None,
        known[1] is not None,
        take,
        store,
    )
    pairs = pairing.pairs()
    gone = tuple(pairing.gone(pairs))
    return FunctionPairing(pairs, gone, pairing.before, pairing.after, pairing.knows_old)


def function_changes(
    pairing: FunctionPairing, old: Struct, new: Struct, store: str, kept: int = 0
) -> StructChange:
    """What becomes of the fields of two structs whose functions are paired."""
    head = match_fields(_head(old, kept), _head(new, kept), {}, store)
    fields = [*head.fields, *(each for pair in pairing.pairs for each in _changes(pair, pairing))]
    dropped = [name for each in pairing.gone for name in pairing.before[each.at : each.end]]
    return StructChange(tuple(fields), (*head.dropped, *dropped), head.unsure)


def _changes(pair: FunctionPair, pairing: FunctionPairing) -> Iterator[FieldOrigin]:
    named = zip(pairing.labels(pair), pair.new.function.fields, strict=True)
    if pair.old is None:
        yield from (FieldOrigin(label, "new", type=spark) for label, (_, spark) in named)
        return
    rules = rules_between(pair.old.function, pair.new.function)
    assert rules is not None, "only what fits is paired"  # noqa: S101
    for (label, (_, spark)), (offset, rule) in zip(named, rules, strict=True):
        place = pair.old.at + offset
        source, before = pairing.before[place], pair.old.function.fields[offset][1]
        if rule:
            yield FieldOrigin(label, "derived", place, source, type=spark, rule=rule)
        else:
            change: Literal["kept", "widened"] = "kept" if is_same(before, spark) else "widened"
            yield FieldOrigin(label, change, place, source)


def _head(struct: Struct, kept: int) -> Struct:
    return {**struct, "fields": struct["fields"][:kept]}


def _placed(
    struct: Struct,
    known: Sequence[AggregateFunction] | None,
    kept: int,
    store: str,
    which: str,
) -> tuple[PlacedFunction, ...]:
    fields = fields_of(struct)[kept:]
    if known is None:
        pieces = divided(fields)
    else:
        pieces = [(each, True) for each in known]
        own = tuple(field for each in known for field in each.fields)
        if not fields_agree(own, fields):
            raise _unfit(store, which, own, fields)
    found, at = [], kept
    for function, is_known in pieces:
        found.append(PlacedFunction(function, at, is_known))
        at += len(function.fields)
    return tuple(found)


@dataclass(frozen=True)
class _Pairing:
    old: tuple[PlacedFunction, ...]
    new: tuple[PlacedFunction, ...]
    fields: tuple[BufferField, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    knows_old: bool
    knows_new: bool
    take: Take
    store: str

    def pairs(self) -> tuple[FunctionPair, ...]:
        return tuple(self._given_pair(each) or self._found(each) for each in self.new)

    def gone(self, pairs: Sequence[FunctionPair]) -> Iterator[PlacedFunction]:
        """What no new function goes on with, nor may go on with."""
        used = {at for each in pairs if each.old for at in range(each.old.at, each.old.end)}
        open_ = {self.before.index(name) for each in pairs for name in each.candidates}
        for each in self.old:
            places = set(range(each.at, each.end))
            if not places & used and not places & open_:
                yield each
            elif not self.knows_old and not places & open_ and places - used:
                yield from self._rest(sorted(places - used))

    def _rest(self, places: list[int]) -> Iterator[PlacedFunction]:
        """What the author has left of fields that may be of several functions."""
        for at in places:
            fields = (self.fields[at],)
            yield PlacedFunction(AggregateFunction(fields_text(fields), fields), at)

    def _given_pair(self, new: PlacedFunction) -> FunctionPair | None:
        """What the author says of a function."""
        names = self.after[new.at : new.end]
        taken = {name: self.take[name] for name in names if name in self.take}
        sources = {name: source for name, source in taken.items() if source is not None}
        if not taken:
            return None
        if not sources or sources == {names[0]: EMPTY}:
            return FunctionPair(new, "begun")
        if len(taken) > 1 or names[0] not in sources:
            raise _in_parts(self.store, new, names, sources)
        return FunctionPair(new, "named", self._old_at(new, sources[names[0]]))

    def _old_at(self, new: PlacedFunction, label: str) -> PlacedFunction:
        if label not in self.before:
            raise _no_such(self.store, new, label, self.before)
        at = self.before.index(label)
        found = next(iter(self._spans(new, at)), None)
        if found is None:
            raise _unlike(self.store, new, label, self._old_text(at))
        return found

    def _old_text(self, at: int) -> str:
        own = next((each for each in self.old if each.at <= at < each.end), None)
        return fields_text(self.fields[at : at + 1]) if own is None else own.function.text

    def _spans(self, new: PlacedFunction, at: int) -> Iterator[PlacedFunction]:
        """The old functions that begin at a place and may be what the new one goes on with."""
        if self.knows_old:
            spans = [each for each in self.old if each.at == at]
        else:
            spans = [
                PlacedFunction(AggregateFunction(fields_text(fields), fields), at)
                for length in dict.fromkeys((len(new.function.fields), 1))
                if at + length <= len(self.fields) and not _cuts(self.old, at, at + length)
                for fields in (self.fields[at : at + length],)
            ]
        for each in spans:
            if derived(each.function, new.function, is_known=self.knows_old):
                yield each

    def _found(self, new: PlacedFunction) -> FunctionPair:
        if self.knows_old and new.function.meaning:
            return self._by_meaning(new)
        alike = [each for each in self.old if self._is_only(each, new)]
        if alike:
            return FunctionPair(new, "shape", alike[0])
        places = [at for at in range(len(self.fields)) if any(self._spans(new, at))]
        matched = {each.at for each in self.old if any(self._is_only(each, n) for n in self.new)}
        open_ = tuple(
            self.before[at] for at in places if at not in matched or not self._is_exact(new, at)
        )
        return FunctionPair(new, "open", candidates=open_) if open_ else FunctionPair(new, "empty")

    def _is_exact(self, new: PlacedFunction, at: int) -> bool:
        return fields_agree(self.fields[at : at + len(new.function.fields)], new.function.fields)

    def _is_only(self, old: PlacedFunction, new: PlacedFunction) -> bool:
        """Whether nothing else has the fields of these two, and they are whole functions."""
        sure = old.is_known and new.is_known
        blind = not self.knows_old and not self.knows_new and old.is_known == new.is_known
        return (
            (sure or blind)
            and old.function.has_shape_of(new.function)
            and sum(each.function.has_shape_of(old.function) for each in self.old) == 1
            and sum(each.function.has_shape_of(new.function) for each in self.new) == 1
        )

    def _by_meaning(self, new: PlacedFunction) -> FunctionPair:
        meaning = new.function.meaning
        same = [each for each in self.old if each.function.meaning == meaning]
        again = sum(each.function.meaning == meaning for each in self.new)
        if len(same) == again == 1 and same[0].function.has_shape_of(new.function):
            return FunctionPair(new, "same", same[0])
        from_ = [e for e in self.old if _computes(e.function, new.function)]
        if len(same) <= 1 and len(from_) == 1:
            return FunctionPair(new, "derived", from_[0])
        # One text stands for several, or what it keeps has changed with the settings; or what is
        # written alike is computed from something else.
        others = {each.function.meaning for each in self.new}
        alike = [
            each
            for each in self.old
            if each.function.text == new.function.text and each.function.meaning not in others
        ]
        open_ = tuple(self.before[each.at] for each in same or from_ or alike)
        return FunctionPair(new, "open", candidates=open_) if open_ else FunctionPair(new, "empty")


def _computes(old: AggregateFunction, new: AggregateFunction) -> bool:
    """Whether the new function's buffer can be computed from the old one's, proven by the code."""
    is_same_argument = bool(new.uncast) and old.uncast == new.uncast
    is_same_function = old.function == new.function
    return is_same_argument and is_same_function and derived(old, new, is_known=True)


def _cuts(old: Sequence[PlacedFunction], begin: int, end: int) -> bool:
    """Whether a span has a part only of what is one function for sure, or of several."""
    touched = [each for each in old if each.at < end and begin < each.end]
    if any(each.is_known for each in touched):
        return [(each.at, each.end) for each in touched] != [(begin, end)]
    return len(touched) != 1


# What does not fit.


def _unfit(
    store: str, which: str, own: Sequence[BufferField], fields: Sequence[BufferField]
) -> RewriteError:
    option = "--old-code" if which == "old" else "--code"
    return RewriteError(
        "SM-REWRITE-018",
        f"the {which} code does not keep what {store} has",
        expected=fields_text(fields),
        found=fields_text(own),
        next_action=f"give {option} the function that the {which} query is made of, as it was when "
        "the checkpoint was written",
        store=store,
    )


def _in_parts(
    store: str, new: PlacedFunction, names: Sequence[str], sources: Mapping[str, Any]
) -> RewriteError:
    other = next((name for name in sources if name != names[0]), names[0])
    return RewriteError(
        "SM-REWRITE-019",
        f"{store}.{other} is a part of {new.function.text}, whose fields stay together",
        expected=f"--take {store}.{names[0]}=OLD, which is the whole function, or nothing else",
        found=f"--take {store}.{other}={sources.get(other)}",
        next_action=f"name the function by its first field, {store}.{names[0]}",
        store=store,
    )


def _no_such(store: str, new: PlacedFunction, label: str, before: Sequence[str]) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-020",
        f"{new.function.text} cannot go on with the old {label}, which {store} does not have",
        expected=f"one of {', '.join(before)}, or {EMPTY} to begin empty",
        found=label,
        next_action="correct the name of the old field",
        store=store,
    )


def _unlike(store: str, new: PlacedFunction, label: str, old: str) -> RewriteError:
    return RewriteError(
        "SM-REWRITE-021",
        f"{new.function.text} cannot go on with the old {label} by itself",
        expected=f"a whole old function with {fields_text(new.function.fields)}, or one that this "
        "is computed from without loss",
        found=old,
        next_action=f"write what becomes of it in a script: `statemigrate new {argument(store)}`; "
        f"or let the function begin empty, with --take {store}.LABEL={EMPTY}",
        store=store,
    )
