"""Copies on this machine of the partitions' files of a checkpoint that is elsewhere.

Tasks only know a directory, and the engine runs on one machine: what they write there the driver
brings to the checkpoint, by the credentials and connectors that Spark has, and what they need and
this machine has not it fetches. Only then is a manifest published. A mirror is worth nothing by
itself; it may be removed while no query uses it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from statemigrate.embedded.chains import SnapshotChain, chains_of, older_chains, without_damage
from statemigrate.embedded.durable import FileReference, confined, sha256_of, unwritable, verify
from statemigrate.embedded.layout import PARTITIONS, Layout, file_name
from statemigrate.embedded.manifest import ChangelogReference, Pack, PartitionState
from statemigrate.embedded.snapshots import stored_files
from statemigrate.errors import CheckpointError, CorruptFileError
from statemigrate.files import RESTORE_COPY

# Packs: the changelogs that a batch wrote in all partitions, as one file of the checkpoint.
#
# An object store takes as long for ten bytes as for a hundred thousand, and asks a price for each
# request; changelogs are small and many. Where each one lies in its pack, the manifest says.


_BLOCK = 1 << 20


def write_pack(path: Path, changelogs: Iterable[tuple[Path, FileReference]]) -> dict[str, Pack]:
    """Write one file with all of these, each in a directory; where each is, by its name."""
    packs = {}
    with unwritable(path.parent):
        confined(path).parent.mkdir()
        with confined(path).open("xb") as target:
            for directory, file in changelogs:
                packs[file.name] = Pack(path.name, target.tell())
                with confined(file.within(directory)).open() as source:
                    shutil.copyfileobj(source, target)
    return packs


def take(pack: Path, offset: int, file: FileReference, target: Path) -> None:
    """Make a changelog of a pack a file of its own, whatever it holds there."""
    with pack.open("rb") as source, confined(target).open("xb") as made:
        source.seek(offset)
        left = file.size
        # Not all at once: a changelog may be larger than memory.
        while left and (block := source.read(min(left, _BLOCK))):
            made.write(block)
            left -= len(block)


_AT_ONCE = 8
"""Requests that wait for the store at the same time."""
_SPARE = 1 << 20
"""Bytes more than a file should have, with which it is still fetched and its checksum reported."""
Jobs = list[Callable[[], Any]]
States = Sequence[PartitionState]


class Mirror:
    """The mirror of one checkpoint, kept by its one driver; of a local one the checkpoint itself.

    With ``shared`` it is a reader's: nothing is compared with its checksum, which is done when it
    is used, and files may be second names of those in the checkpoint. With ``reads_back`` what
    tasks have written is read before a manifest names it: they may be on other machines.
    """

    def __init__(self, layout: Layout, *, shared: bool = False, reads_back: bool = False) -> None:
        self._layout = layout
        self._is_proven = self._shared = shared
        self._lost: dict[Path, CorruptFileError] = {}
        self._reads_back = reads_back

    def bring(self, states: States) -> tuple[PartitionState, ...]:
        """Fetch what tasks need to start from ``states``; the states by what there is of them.

        What is here already is compared with its checksum the first time, and fetched again if it
        is another. What is missing or altered in the checkpoint is missing here too, and the task
        that needs it raises; where a state's own files do not make it any more, those that older
        manifests name are fetched, and the state names them.
        """
        jobs = self._unpacking(
            (number, each.chain_changelogs) for number, each in enumerate(states)
        )
        # A disk has all else, and may have packs that came with a copy of a bucket.
        for number, state in enumerate(states) if self._is_remote else ():
            files = [each.file for each in state.chain_changelogs if each.pack is None]
            listings = [each.file for each in state.all_snapshots]
            jobs += self._having(number, files, listings)
        self._do(jobs)
        found = tuple(self._with_whole_chain(*each) for each in enumerate(states))
        self._is_proven = True
        return found

    @property
    def lost(self) -> tuple[CorruptFileError, ...]:
        """What was found missing or altered in the checkpoint."""
        return tuple(self._lost.values())

    def require_whole(self, states: States) -> None:
        """Raise `CorruptFileError` where the files that are here do not make one of ``states``."""
        for number, state in enumerate(states):
            if not any(self._is_whole(number, each) for each in chains_of(state)):
                raise next(iter(self._lost.values()))

    def location_in_checkpoint(self, path: str) -> str:
        """Where a file that tasks have named is in the checkpoint."""
        here = Path(path)
        if not (self._is_remote and here.is_relative_to(self._layout.checkpoint)):
            return path
        return self._layout.location_of(str(here.relative_to(self._layout.checkpoint)))

    def hand_over(self, version: int, before: States, after: States) -> tuple[PartitionState, ...]:
        """Bring to the checkpoint what tasks have written since; the states as they are there.

        The new changelogs of all partitions become one file. Each new file is looked at first:
        raises `CheckpointError` for one that this machine does not have as its task says.
        """
        for number, states in enumerate(zip(before, after, strict=True)):
            self._check_written(number, *states)
        if not self._is_remote:
            return tuple(after)
        pairs = enumerate(zip(before, after, strict=True))
        names = [name for pair in pairs for name in sorted(self._new_content(*pair))]
        changelogs = _new_changelogs(before, after)
        packs: dict[str, Pack] = {}
        if changelogs:
            pack = f"{PARTITIONS}/{file_name(version, 'pack')}"
            files = [(self._layout.partition(number), file) for number, file in changelogs]
            packs = write_pack(self._path(pack), files)
            names.append(pack)
        self._do([partial(self._layout.files.put, name, self._path(name)) for name in names])
        if changelogs:
            confined(self._path(pack)).unlink()
        return tuple(state.packed(packs) for state in after)

    def prune(self, versions: Iterable[States]) -> None:
        """Remove what none of these versions needs: it is in the checkpoint, if anywhere."""
        if not self._is_remote:
            return
        # Of packs only a driver that was killed leaves something here.
        needed: dict[Path, set[str]] = {self._path(PARTITIONS): set()}
        for number, state in ((n, state) for states in versions for n, state in enumerate(states)):
            directory = self._layout.partition(number)
            names = needed.setdefault(directory, set())
            names |= {each.file.name for each in state.all_changelogs}
            names |= {each.file.name for each in state.all_snapshots}
            needed.setdefault(directory / "files", set()).update(self._content(number, state))
        for directory, names in needed.items():
            for path in confined(directory).glob("*"):
                if path.name not in names and path.is_file():
                    path.unlink(missing_ok=True)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of a file that only this machine has lost that the checkpoint still has it."""
        try:
            yield
        except CorruptFileError as error:
            path = Path(str(error.data.get("path")))
            if not (self._is_remote and path.is_relative_to(self._layout.checkpoint)):
                raise
            if path in self._lost:
                raise self._lost[path] from error
            raise error.but(
                next_action="start the query again, and keep others from removing files of its "
                "working directory, such as what empties the temporary one: the file is fetched "
                f"again from {self._layout.files.location}",
            ) from error

    def _do(self, jobs: Jobs) -> None:
        """Do them all, several at a time; raises an error once nothing is being done any more."""
        started = [self._pool.submit(job) for job in jobs]
        done, rest = wait(started, return_when=FIRST_EXCEPTION)
        wait([each for each in rest if not each.cancel()])
        for each in done:
            each.result()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        # Kept: each thread has a thread of the JVM, which does not end with it.
        return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="statemigrate-mirror")

    @property
    def _is_remote(self) -> bool:
        return self._layout.remote is not None

    def _path(self, name: str) -> Path:
        return self._layout.checkpoint / name

    def _content(self, number: int, state: PartitionState) -> set[str]:
        """The names of the content of a state's snapshots."""
        directory = self._layout.partition(number)
        names: set[str] = set()
        for each in state.all_snapshots:
            if each.file.within(directory) not in self._lost:
                names |= {file.name for file in stored_files(each.file, directory)}
        return names

    def _new_content(self, number: int, states: tuple[PartitionState, PartitionState]) -> set[str]:
        """The names in the checkpoint of new snapshots, and of the content they do not share."""
        before, after = states
        folder = f"{PARTITIONS}/{number}"
        known = {each.file.name for each in before.all_snapshots}
        names = {each.file.name for each in after.all_snapshots} - known
        if not names:
            return set()
        content = self._content(number, after) - self._content(number, before)
        return {f"{folder}/{name}" for name in names} | {f"{folder}/files/{n}" for n in content}

    def _check_written(self, number: int, before: PartitionState, after: PartitionState) -> None:
        """Raise `CheckpointError` unless each file that only ``after`` names is on this machine."""
        directory = self._layout.partition(number)
        known = {each.file.name for each in before.all_changelogs}
        known |= {each.file.name for each in before.all_snapshots}
        for changelog in after.all_changelogs:
            if changelog.file.name not in known:
                self._check_file(changelog.file.within(directory), changelog.file)
        listings = [e.file for e in after.all_snapshots if e.file.name not in known]
        for listing in listings:
            self._check_file(listing.within(directory), listing)
        stored: set[str] = set()
        for each in before.all_snapshots if listings else ():
            # One that is damaged shares nothing: then every file is looked at.
            with suppress(CorruptFileError):
                stored |= {file.name for file in stored_files(each.file, directory)}
        for listing in listings:
            for file in stored_files(listing, directory):
                if file.name not in stored:
                    self._check_file(file.within(directory / "files"), file)

    def _check_file(self, path: Path, file: FileReference) -> None:
        try:
            size = confined(path).stat().st_size
        except FileNotFoundError:
            raise _elsewhere(path, file, "no such file") from None
        if size != file.size:
            raise _elsewhere(path, file, f"{size:,} bytes")
        if self._reads_back and (found := sha256_of(path)) != file.sha256:
            raise _elsewhere(path, file, f"as many bytes with SHA-256 {found}")

    def _lacks(self, path: Path, file: FileReference) -> bool:
        if not confined(path).is_file():
            return True
        if self._is_proven:
            return False
        try:
            verify(path, file)
        except CorruptFileError:
            # This machine's copy is not what counts.
            confined(path).unlink()
            return True
        return False

    def _having(
        self, number: int, files: Iterable[FileReference], listings: Iterable[FileReference]
    ) -> Jobs:
        folder = f"{PARTITIONS}/{number}"
        jobs: Jobs = [partial(self._have, folder, file) for file in files]
        return jobs + [partial(self._have_snapshot, folder, listing) for listing in listings]

    def _have(self, folder: str, file: FileReference) -> bool:
        """Fetch a file that is not here; whether there is one now."""
        path = file.within(self._path(folder))
        if not self._lacks(path, file):
            return True
        name = f"{folder}/{file.name}"
        with self._noted(path), self._appearing(path, name, file) as unfinished:
            self._fetch(name, unfinished, file.size + _SPARE)
        return confined(path).is_file()

    def _have_snapshot(self, folder: str, listing: FileReference) -> None:
        if self._have(folder, listing):
            for file in stored_files(listing, self._path(folder)):
                self._have(f"{folder}/files", file)

    @contextmanager
    def _noted(self, *paths: Path) -> Iterator[None]:
        """Note of files here that the checkpoint has lost them, and why."""
        for path in paths:
            self._lost.pop(path, None)
        try:
            yield
        except CorruptFileError as error:
            self._lost |= dict.fromkeys(paths, error)

    def _with_whole_chain(self, number: int, state: PartitionState) -> PartitionState:
        if not self._lost or any(self._is_whole(number, each) for each in chains_of(state)):
            return state
        for chain in older_chains(self._layout, number, state):
            self._do(self._unpacking([(number, chain.changelogs)]))
            files = [each.file for each in chain.changelogs if each.pack is None]
            listings = [] if chain.snapshot is None else [chain.snapshot.file]
            self._do(self._having(number, files, listings))
            if self._is_whole(number, chain):
                return without_damage(state, (), chain)
        # A working copy may have the state all the same.
        return state

    def _is_whole(self, number: int, chain: SnapshotChain) -> bool:
        directory = self._layout.partition(number)
        files = {each.within(directory) for each in chain.files}
        if not files & self._lost.keys() and chain.snapshot is not None:
            content = stored_files(chain.snapshot.file, directory)
            files |= {each.within(directory / "files") for each in content}
        return not files & self._lost.keys()

    def _unpacking(self, named: Iterable[tuple[int, Iterable[ChangelogReference]]]) -> Jobs:
        """What takes the changelogs from packs that are not here."""
        found = [
            (each.pack.name, each.pack.offset, each.file, self._layout.partition(number))
            for number, changelogs in named
            for each in changelogs
            if each.pack is not None
            and self._lacks(each.file.within(self._layout.partition(number)), each.file)
        ]
        groups = groupby(sorted(found, key=itemgetter(0, 1)), key=itemgetter(0))
        return [partial(self._unpack, name, list(parts)) for name, parts in groups]

    def _unpack(self, pack: str, parts: list[tuple[str, int, FileReference, Path]]) -> None:
        name = f"{PARTITIONS}/{pack}"
        local = FileReference(f"{pack}.{uuid.uuid4().hex}", "", 0).within(self._path(PARTITIONS))
        try:
            with unwritable(local.parent):
                confined(local).parent.mkdir()
            # What the manifest does not know of may be behind it, of batches that it left behind.
            known = max(offset + file.size for _, offset, file, _ in parts)
            paths = [file.within(directory) for _, _, file, directory in parts]
            with self._noted(*paths):
                self._fetch(name, local, known, cut=True)
                for (_, offset, file, _), path in zip(parts, paths, strict=True):
                    with self._noted(path), self._appearing(path, name, file) as unfinished:
                        take(local, offset, file, unfinished)
        finally:
            confined(local).unlink(missing_ok=True)

    def _fetch(self, name: str, path: Path, most: int, *, cut: bool = False) -> None:
        try:
            self._layout.files.fetch(name, path, most=most, shared=self._shared, cut=cut)
        except FileNotFoundError as error:
            place = self._layout.location_of(name)
            raise CorruptFileError(
                "SM-EMBEDDED-017",
                f"{place} is missing",
                expected="the file that a manifest names",
                found="no such file",
                next_action=RESTORE_COPY,
                path=place,
            ) from error

    @contextmanager
    def _appearing(self, path: Path, name: str, file: FileReference) -> Iterator[Path]:
        """A name next to ``path`` whose file, if it is what ``name`` should be, gets that name."""
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        with unwritable(path.parent):
            confined(path).parent.mkdir()
            try:
                yield unfinished
                self._check(unfinished, name, file)
                confined(unfinished).rename_to(confined(path))
            finally:
                confined(unfinished).unlink(missing_ok=True)

    def _check(self, path: Path, name: str, file: FileReference) -> None:
        try:
            if not self._shared:
                verify(path, file)
        except CorruptFileError as error:
            place = self._layout.location_of(name)
            raise error.but(summary=f"{place} is not what was written", path=place) from error


def _elsewhere(path: Path, file: FileReference, found: str) -> CheckpointError:
    return CheckpointError(
        "SM-EMBEDDED-025",
        f"what a task has written is not where the driver is: {path}",
        expected=f"{file.size:,} bytes with SHA-256 {file.sha256}, as the task says",
        found=found,
        next_action="nothing of this batch is committed. Run the tasks on the driver's machine, by "
        "a local master; or put the checkpoint, or of a remote one the working directory, on a "
        "disk that all machines have under this path, and say so by "
        "EmbeddedOptions(shared_path=True). Then start the query again",
        path=str(path),
    )


def _new_changelogs(before: States, after: States) -> list[tuple[int, FileReference]]:
    """Those that only the later states name, by partition."""
    found = []
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        known = {each.file.name for each in old.all_changelogs}
        found += [(number, each.file) for each in new.all_changelogs if each.file.name not in known]
    return found
