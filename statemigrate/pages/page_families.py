"""The family protocol on a page: a family is one of its sections.

A family goes from page to page, so that the variables made in ``init`` last as long as the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from statemigrate.access import Adopt, DualAccess
from statemigrate.deployment import (
    VARIABLE_KINDS,
    Declared,
    DeploymentSettings,
    Kind,
    StoredFamily,
    StorePlan,
    complement_of,
    is_family_of,
)
from statemigrate.errors import PageError, TransformError
from statemigrate.families import FORMAT as COMPLEMENT_FORMAT
from statemigrate.families import Source, Span
from statemigrate.formats import Format, Value
from statemigrate.pages.columns import (
    NEVER,
    Element,
    elements_of,
    is_over,
    joined,
    last_to_expire,
    without_first_expired,
)
from statemigrate.pages.page import OpenSection, Page
from statemigrate.pages.value import PageQuarantine
from statemigrate.processor import OpenStores, Role, TupleKeyCodec, shown_key

FINGERPRINT = 16
"""The bytes of a fingerprint that a page keeps."""


class PageFamily:
    """Values of one revision in the page that was turned to last.

    What is written lives for ``life`` milliseconds, None for ever. What has expired by the time of
    the visit is gone from the page as soon as the family is asked for anything.
    """

    def __init__(self, family: StoredFamily, life: int | None = None) -> None:
        self.name = family.name
        self.revision = family.revision
        self.format = family.format
        self._fingerprint = fingerprint(family.format)
        self._encode: Callable[[Any], bytes] = family.format.encode
        self._encode_many: Callable[[Sequence[Any]], Sequence[bytes]] = family.format.encode_many
        self._decode: Callable[[bytes], Any] = family.format.decode
        self._page: Page | None = None
        self._section: OpenSection | None = None
        self._life = life
        self._now = self._expiry = NEVER

    def turn(self, page: Page, now: int = 0) -> None:
        """Go on with another page; its section is opened when something is asked of it.

        ``now`` is the time of the batch, in milliseconds since the epoch.
        """
        self._page, self._section, self._now = page, None, now
        self._expiry = NEVER if self._life is None else now + self._life

    def get(self, key: bytes) -> Any:
        """See `statemigrate.families.Family.get`."""
        data = (self._section or self._opened()).get(key)
        return None if data is None else self._decode(data)

    def contains(self, key: bytes) -> bool:
        """See `statemigrate.families.Family.contains`."""
        return (self._section or self._opened()).contains(key)

    def conform(self, value: Any) -> Any:
        """See `statemigrate.families.Family.conform`."""
        return self.format.conform(value)

    def put(self, key: bytes, value: Any) -> None:
        """See `statemigrate.families.Family.put`."""
        (self._section or self._opened()).put(key, self._encode(value), self._expiry)

    def adopt(self, key: bytes, value: Any, source: PageFamily) -> None:
        """Write a value that was migrated, for as long as it had left in ``source``."""
        expiry = source.expiry(key)
        (self._section or self._opened()).put(key, self._encode(value), expiry)

    def expiry(self, key: bytes) -> int:
        """When the entry under ``key`` expires; see `Section.expiry`."""
        return (self._section or self._opened()).expiry(key)

    def delete(self, key: bytes) -> None:
        """See `statemigrate.families.Family.delete`."""
        (self._section or self._opened()).delete(key)

    def contains_any(self, keys: Sequence[bytes]) -> bool:
        """See `statemigrate.families.BlockFamily.contains_any`."""
        section = self._section or self._opened()
        return bool(section.count) and any(map(section.contains, keys))

    def put_many(self, keys: Sequence[bytes], values: Sequence[Any]) -> None:
        """See `statemigrate.families.BlockFamily.put_many`."""
        self.put_many_encoded(keys, self._encode_many(values))

    def get_many_encoded(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `statemigrate.families.EncodedBlockFamily.get_many_encoded`."""
        return (self._section or self._opened()).get_many(keys)

    def put_many_encoded(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """See `statemigrate.families.EncodedBlockFamily.put_many_encoded`."""
        (self._section or self._opened()).put_many(keys, values, self._expiry)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """See `statemigrate.families.BlockFamily.delete_many`."""
        (self._section or self._opened()).delete_many(keys)

    def scan_encoded(self, span: Span) -> Iterator[tuple[bytes, bytes]]:
        """See `statemigrate.families.EncodedBlockFamily.scan_encoded`."""
        return iter((self._section or self._opened()).scan(span))

    def scan(self, span: Span) -> Iterator[tuple[bytes, Any]]:
        """See `statemigrate.families.Family.scan`."""
        entries = (self._section or self._opened()).scan(span)
        return ((key, self._decode(data)) for key, data in entries)

    def scan_but(
        self, passed_over: Callable[[bytes], bool] | None = None
    ) -> Iterator[tuple[bytes, Any]]:
        """All entries but those under keys that are ``passed_over``, which are not decoded."""
        entries = (self._section or self._opened()).scan(Span())
        return (
            (key, self._decode(data))
            for key, data in entries
            if passed_over is None or not passed_over(key)
        )

    def is_drained(self) -> bool:
        """See `statemigrate.families.Family.is_drained`: of this page, which was read whole."""
        if self._section is not None:
            return not self._section.count
        # Before the first page nothing was seen, and not seen is never empty.
        return self._page is not None and not self._page.contains_family(self.name)

    def drop_expired(self) -> None:
        """Remove what has expired, also if nothing was asked of the family."""
        if (
            self._section is None
            and self._page is not None
            and self._page.contains_family(self.name)
        ):
            self._opened()

    def _opened(self) -> OpenSection:
        assert self._page is not None, "no page was turned to"  # noqa: S101
        self._section = self._page.section(self.name, self._fingerprint)
        self._section.drop_expired(self._now)
        return self._section


class PageListFamily(PageFamily):
    """Lists of one revision, whose elements expire one by one."""

    def __init__(self, family: StoredFamily, life: int | None = None) -> None:
        super().__init__(family, life)
        self._encode = self._encode_list
        self._encode_many = lambda lists: [self._encode_list(each) for each in lists]
        self._decode = self._decode_list

    def conform(self, values: list[Value]) -> list[Value]:
        """See `statemigrate.families.Family.conform`."""
        return [self.format.conform(value) for value in values]

    def put(self, key: bytes, values: list[Value]) -> None:
        """See `statemigrate.families.Family.put`; an empty list is no entry."""
        if values:
            super().put(key, values)
        else:
            self.delete(key)

    def append(self, key: bytes, values: Iterable[Value]) -> None:
        """See `statemigrate.families.ListFamily.append`."""
        more = self._encode_list(list(values))
        if not more:
            return
        section = self._section or self._opened()
        there = section.get(key) or b""
        expiry = self._expiry
        if there:
            there = without_first_expired(there, self._now)
            expiry = last_to_expire((expiry, section.expiry(key))) if there else expiry
        section.put(key, there + more, expiry)

    def adopt(self, key: bytes, values: list[Value], source: PageFamily) -> None:
        """See `PageFamily.adopt`: every element goes on for as long as it had left."""
        assert isinstance(source, PageListFamily), source.name  # noqa: S101
        expiry_times = [expires_at for _, expires_at in source.alive(key)]
        encoded = [self.format.encode(value) for value in values]
        data = joined(zip(encoded, expiry_times, strict=True))
        (self._section or self._opened()).put(key, data, last_to_expire(expiry_times))

    def alive(self, key: bytes) -> list[Element]:
        """The elements under ``key`` that have not expired."""
        return self._alive((self._section or self._opened()).get(key) or b"")

    def _alive(self, data: bytes) -> list[Element]:
        return [each for each in elements_of(data) if not is_over(each[1], self._now)]

    def _encode_list(self, values: list[Value]) -> bytes:
        return joined((self.format.encode(value), self._expiry) for value in values)

    def _decode_list(self, data: bytes) -> list[Value]:
        return self.format.decode_many([element for element, _ in self._alive(data)])


def family_class(kind: Kind) -> type[PageFamily]:
    """The family of a kind of store."""
    return PageListFamily if VARIABLE_KINDS[kind].has_several_values else PageFamily


def fingerprint(fmt: Format) -> bytes:
    """What a page keeps of a format's fingerprint."""
    return bytes.fromhex(fmt.fingerprint)[:FINGERPRINT]


# The stores of a processor over the page that is visited, each behind its dual access.


_log = logging.getLogger("statemigrate.pages")


class PageStores(OpenStores):
    """The stores of the plans, over one page after the other.

    ``quarantined`` counts the values that a page's migration left where they were, under
    ``on_error="quarantine"``: each once for the start that is called ``deployment``.
    """

    def __init__(
        self,
        plans: Mapping[str, StorePlan],
        settings: DeploymentSettings,
        keys: TupleKeyCodec,
        deployment: str,
    ) -> None:
        super().__init__(write_on_read=settings.write_on_read, on_error=settings.on_error)
        self._quarantine = PageQuarantine(deployment)
        self._keys = keys
        self._families: list[PageFamily] = []
        self._expiring: list[PageFamily] = []
        for plan in plans.values():
            self.add(plan)
        # A page that nobody has touched since code gave its complements up still has them.
        self._without_complement = [
            complement_of(store).name for store, plan in plans.items() if plan.complement is None
        ]
        self._known = frozenset(family.name for family in self._families)

    def family(self, plan: StorePlan, family: StoredFamily, role: Role) -> PageFamily:
        """See `OpenStores`."""
        life = plan.declared.ttl or None
        if role == "complement":
            opened = PageFamily(family)
        else:
            opened = family_class(plan.declared.kind)(family, life)
            self._expiring += [opened] if life else []
        self._families.append(opened)
        return opened

    def shown(self, declared: Declared, key: bytes) -> tuple[Any, ...]:
        """See `OpenStores`."""
        user_key = declared.user_key
        return shown_key(self._keys, None if user_key is None else TupleKeyCodec(user_key), key)

    def adopts(self, plan: StorePlan) -> Adopt | None:
        """See `OpenStores`."""
        return family_class(plan.declared.kind).adopt if plan.declared.ttl else None

    def turn(self, page: Page, now: int) -> None:
        """Go on with another page, at the time ``now`` of the batch.

        Raises `PageError` for one with families that nobody knows.
        """
        self._check_known(page)
        self._page = page
        for name in self._without_complement:
            _drop_complements(page, name)
        self._quarantine.turn(page)
        for family in self._families:
            family.turn(page, now)
        for access in self._open.values():
            access.resume()

    def migrate(self, *, asked: bool = False) -> None:
        """Migrate all that the page has in an older family: a touched page is moved whole.

        Where reads are not to migrate, only if it is ``asked`` for by a backfill. An entry that
        does not migrate stays as it was, and its neighbours go on: it fails when it is touched
        itself, or asked for where the user wants to know, which raises `TransformError`.
        """
        if not (asked or self._write_on_read):
            return
        # Here a migrated value keeps its time: no script has to say whether it may migrate.
        for access in self.accesses:
            for source in access.sources:
                self._migrate_all(access, source, asked=asked)

    def _migrate_all(self, access: DualAccess[Any], source: Source[Any], *, asked: bool) -> None:
        family = source.family
        assert isinstance(family, PageFamily), family.name  # noqa: S101
        raises = asked and self._on_error == "raise"

        def failed(key: bytes, error: TransformError) -> None:
            if raises:
                raise error
            self._leave(family, key, error)

        passed_over = self._passed_over(family, raises)
        left = (
            access.left_in(source, Span()) if passed_over is None else family.scan_but(passed_over)
        )
        entries = list(left)
        if entries:
            access.backfill_many(source, entries, failed)

    def _passed_over(self, family: PageFamily, every: bool) -> Callable[[bytes], bool] | None:
        """What tells of a key that this start has tried; None where all are to be tried."""
        if every or not self._quarantine.has_marks:
            return None
        return partial(self._quarantine.is_marked, family.name)

    def _leave(self, family: PageFamily, key: bytes, error: TransformError) -> None:
        self._quarantine.mark(family.name, key)
        self.quarantined += self._on_error == "quarantine"
        _log.warning("a value stays in %s, since it does not migrate: %s", family.name, error)

    def forget_marks(self) -> None:
        """Remove the marks of entries that are not in an older family any more."""
        self._quarantine.keep(self._is_left)

    def _is_left(self, name: str, key: bytes) -> bool:
        if name in self._known:
            return any(
                source.family.contains(key)
                for access in self.accesses
                for source in access.sources
                if source.family.name == name
            )
        # Of a store that this code does not have, whose entries nobody moves.
        return self._page.contains_family(name)

    def drop_expired(self) -> None:
        """Remove what has expired of the page, for any key that is asked for."""
        for family in self._expiring:
            family.drop_expired()

    def _check_known(self, page: Page) -> None:
        for name in page.families - self._known:
            for store in self._open:
                if is_family_of(store, name):
                    raise _unknown(store, name, self._known)


def _drop_complements(page: Page, name: str) -> None:
    if page.contains_family(name):
        section = page.section(name, fingerprint(COMPLEMENT_FORMAT))
        for key, _ in section.scan(Span()):
            section.delete(key)


def _unknown(store: str, name: str, known: frozenset[str]) -> PageError:
    return PageError(
        "SM-PAGES-009",
        f"a page of state has the family {name}, which was not there when the query was checked",
        expected=f"one of {', '.join(sorted(known))}",
        found=name,
        next_action="restart the query, which compares code, scripts and pages again; if this is "
        "given again, bring back the scripts that the checkpoint was last run with",
        store=store,
        family=name,
    )
