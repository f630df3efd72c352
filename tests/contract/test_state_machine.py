"""Everything a partition goes through, in any order, against a model of plain dictionaries.

Live reads and writes, scans, backfill, commits, every kind of crash, restarts with an older or
newer target, retirement. On failure hypothesis prints the steps; they are the same on every run.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.benches import Batch, Bench, Crash, MemoryBench, PageBench, RocksBench
from support.model import Model
from support.notes import NEW, OLD, POISON, REVISIONS, PoisonedError, family, note

from statemigrate.budget import Budget, run_chunk
from statemigrate.errors import TransformError
from statemigrate.families import Span

KINDS = {"notes": "value", "lists": "list", "maps": "map"}
# Prefix-free, as the key codec gives them; the first two begin alike, as entries of one map do.
KEYS = [b"\x01a\x00\x00\x01", b"\x01a\x00\x00\x02", b"\x01b\x00\xff\x00\x00", b"\xff\xff"]
PLAIN, LISTS = ["notes", "maps"], ["lists"]
CRASHES: list[Crash] = ["abandoned", "left open", "killed", "deleted", "not published"]

keys = st.sampled_from(KEYS)
stores = st.sampled_from(list(KINDS))
texts = st.one_of(st.sampled_from("xyz"), st.just(POISON))
lists_of_texts = st.lists(texts, min_size=1, max_size=3)
bounds = st.one_of(st.none(), st.sampled_from([b"", b"\x01a", b"\x01b", b"\x02", b"\xff", *KEYS]))
spans = st.one_of(
    st.builds(Span, bounds, bounds, st.booleans()),
    st.builds(
        Span.prefix, st.sampled_from([b"", b"\x01", b"\x01a\x00\x00", b"\xff"]),
        reverse=st.booleans(),
    ),
)  # fmt: skip


class PartitionMachine(RuleBasedStateMachine):
    bench_type: type[Bench]

    def __init__(self) -> None:
        super().__init__()
        # Memory, where there is such a place: what is tested here is order, not the disk.
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
        self.directory = Path(tempfile.mkdtemp(prefix="state-machine-", dir=place))
        self.bench: Any = self.bench_type(self.directory, KINDS)
        self.model = Model(KINDS)

    def teardown(self) -> None:
        if isinstance(self.bench, RocksBench):
            self.bench.close()
        shutil.rmtree(self.directory)

    @initialize(texts=st.lists(texts, min_size=4, max_size=4))
    def old_values(self, texts: list[str]) -> None:
        """Start as a query does that has run at the old revision and now gets a newer target."""
        self.open(OLD)
        for key, text in zip(KEYS, texts, strict=True):
            for store in PLAIN:
                self.both("put", store, key, note(OLD, text))
            self.both("put", "lists", key, [note(OLD, text), note(OLD, "second")])
        self.end_of_batch()
        self.open(NEW, first_of_run=True)

    def open(self, target: str, *, write_on_read: bool = True, first_of_run: bool = False) -> None:
        self.model.open(target, write_on_read=write_on_read, first_of_run=first_of_run)
        live = dict(self.model.live)
        self.bench.open(Batch(target, live, write_on_read, first_of_run))
        self.began = copy.deepcopy(self.model.families)

    def reopen(self) -> None:
        self.open(self.model.target, write_on_read=self.model.write_on_read)

    def both(self, operation: str, store: str, *arguments: Any) -> Any:
        """Do the same to the model and to the access; the same comes out, or the same error."""
        call = getattr(self.bench.accesses[store], operation)
        try:
            expected = getattr(self.model, operation)(store, *copy.deepcopy(arguments))
        except PoisonedError:
            with pytest.raises(TransformError, match=POISON):
                list(call(*arguments) or ())
            return
        found = call(*arguments)
        assert (list(found) if operation == "scan" else found) == expected

    @rule(store=stores, key=keys)
    def get(self, store: str, key: bytes) -> None:
        self.both("get", store, key)

    @rule(store=stores, key=keys)
    def peek(self, store: str, key: bytes) -> None:
        self.both("peek", store, key)

    @rule(store=stores, key=keys)
    def exists(self, store: str, key: bytes) -> None:
        known = self.model.found(store, key) is not None
        assert self.bench.accesses[store].exists(key) is known

    @rule(store=st.sampled_from(PLAIN), key=keys, text=texts)
    def put(self, store: str, key: bytes, text: str) -> None:
        self.both("put", store, key, note(self.model.target, text))

    @rule(key=keys, texts=lists_of_texts)
    def put_list(self, key: bytes, texts: list[str]) -> None:
        self.both("put", "lists", key, [note(self.model.target, text) for text in texts])

    @rule(key=keys, texts=lists_of_texts)
    def append(self, key: bytes, texts: list[str]) -> None:
        self.both("append", "lists", key, [note(self.model.target, text) for text in texts])

    @rule(store=stores, key=keys)
    def delete(self, store: str, key: bytes) -> None:
        self.both("delete", store, key)

    @rule(store=stores, span=spans)
    def scan(self, store: str, span: Span) -> None:
        self.both("scan", store, span)

    @rule(group=st.sampled_from([b"\x01a\x00\x00", b"\x01b\x00\xff\x00\x00"]))
    def clear_map(self, group: bytes) -> None:
        self.both("clear", "maps", Span.prefix(group))

    @rule(store=stores, rows=st.integers(1, 3), choice=st.integers(0, 1))
    def backfill(self, store: str, rows: int, choice: int) -> None:
        sources = self.bench.accesses[store].sources
        if not sources:
            return
        source = sources[choice % len(sources)]
        failures: list[int] = []
        before = self.model.backfilled[store]
        self.model.backfill(store, source.family.revision, rows, lambda: failures.append(1))
        chunk = run_chunk(
            self.bench.accesses[store], source, self.bench.ledger, Budget(rows, 60_000.0),
            on_error="quarantine",
        )  # fmt: skip
        assert chunk.migrated == self.model.backfilled[store] - before
        assert chunk.quarantined == len(failures)

    @rule(snapshot=st.booleans(), retire=st.booleans())
    def commit(self, snapshot: bool, retire: bool) -> None:
        self.end_of_batch(snapshot=snapshot)
        drained = self.model.drained() if retire else []
        if drained:
            self.retire(drained)
        self.reopen()

    def retire(self, drained: list[tuple[str, str]]) -> None:
        """One batch that drops what the committed state shows to be empty."""
        self.reopen_without(drained)
        for store, revision in drained:
            assert self.bench.drop(family(store, revision).name)
        self.end_of_batch()

    def reopen_without(self, drained: list[tuple[str, str]]) -> None:
        model = self.model
        model.open(model.target, write_on_read=model.write_on_read, first_of_run=False)
        for store, revision in drained:
            model.retire(store, revision)
        self.bench.open(Batch(model.target, dict(model.live), model.write_on_read))

    @rule(how=st.sampled_from(CRASHES))
    def crash(self, how: Crash) -> None:
        self.bench.crash(how)
        self.reopen()

    @rule(revision=st.sampled_from(REVISIONS), write_on_read=st.booleans(), clean=st.booleans())
    def restart(self, revision: str, write_on_read: bool, clean: bool) -> None:
        """Roll forward or back, or stay; after a commit, or losing the batch under way."""
        if clean:
            self.end_of_batch()
        else:
            self.bench.crash("abandoned")
        self.open(revision, write_on_read=write_on_read, first_of_run=True)

    @precondition(lambda self: isinstance(self.bench, RocksBench))
    @rule()
    def second_attempt(self) -> None:
        """Another process runs the same batch at the same time: it starts from the same state."""
        other = self.bench.beside()
        other.open(self.bench.batch)
        try:
            for store in KINDS:
                for revision in self.model.live[store]:
                    committed = self.began.get((store, revision), {})
                    assert other.contents(store, revision) == committed
        finally:
            other.close()

    def end_of_batch(self, *, snapshot: bool = False) -> None:
        for store, access in self.bench.accesses.items():
            assert access.counts.touched == self.model.touched[store]
            assert access.counts.backfilled == self.model.backfilled[store]
        self.check_each_key_is_in_one_family()
        self.bench.commit(snapshot=snapshot)
        self.model.commit()
        if isinstance(self.bench, RocksBench):
            self.check_described_state()

    def check_each_key_is_in_one_family(self) -> None:
        for store in KINDS:
            held = [key for each in self.model.live[store] for key in self.contents(store, each)]
            assert len(held) == len(set(held))

    def check_described_state(self) -> None:
        """The exact number of entries of each source, and of what is quarantined in it."""
        quarantined: dict[str, int] = {}
        for store, revision, _ in self.model.quarantined:
            name = family(store, revision).name
            quarantined[name] = quarantined.get(name, 0) + 1
        assert self.bench.state.quarantined == quarantined
        assert self.bench.state.entries == {
            family(store, revision).name: self.described(store, revision)
            for store in KINDS
            for revision in self.model.live[store]
        }

    def described(self, store: str, revision: str) -> int | None:
        entries = self.model.entries(store, revision)
        count = sum(map(len, entries.values())) if KINDS[store] == "list" else len(entries)
        return None if revision == self.model.target and count else count

    def contents(self, store: str, revision: str) -> dict[bytes, Any]:
        return self.bench.contents(store, revision)

    @invariant()
    def every_family_holds_exactly_what_it_should(self) -> None:
        for store, access in self.bench.accesses.items():
            for revision in self.model.live[store]:
                expected = self.model.entries(store, revision)
                assert self.contents(store, revision) == expected, (store, revision)
            with_entries = [r for r in self.model.sources(store) if self.model.entries(store, r)]
            assert [each.family.revision for each in access.sources] == with_entries

    @invariant()
    def sources_only_shrink(self) -> None:
        for store in self.bench.accesses:
            for revision in self.model.sources(store):
                began = self.began.get((store, revision), {}).items()
                assert all(entry in began for entry in self.contents(store, revision).items())


class InMemory(PartitionMachine):
    bench_type = MemoryBench


class OnDisk(PartitionMachine):
    bench_type = RocksBench


class InAPage(PartitionMachine):
    bench_type = PageBench


def test_families_in_memory_follow_the_model_whatever_happens() -> None:
    run_state_machine_as_test(InMemory, settings=settings(max_examples=35, stateful_step_count=30))


def test_partitions_on_disk_follow_the_model_whatever_happens() -> None:
    run_state_machine_as_test(OnDisk, settings=settings(max_examples=8, stateful_step_count=30))


def test_pages_follow_the_model_whatever_happens() -> None:
    run_state_machine_as_test(InAPage, settings=settings(max_examples=20, stateful_step_count=30))
