"""Which state variables Spark's own metadata names, read as files.

At the first batch of a run Spark writes ``state/<operator>/_metadata/v2/<batch>``: the variables
the code declares, and the schema files they are described in. A batch that was killed has that file
already; when other code runs it again Spark writes another schema file, and leaves the first
metadata as it is. So a schema file of that batch which the metadata does not name tells of
variables that Spark does not list, though they may be full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from statemigrate.checkpoint.logs import batches_in, codec_of, names_in, read_commit, read_entry
from statemigrate.checkpoint.operators import (
    SCHEMAS,
    OperatorFile,
    operator_file,
    operator_files,
    operator_runs,
    read_schema_file,
    schema_batch,
    schema_batches,
)
from statemigrate.checkpoint.stores import rocksdb_version, store_folder
from statemigrate.errors import CheckpointError
from statemigrate.files import Files, PathOrFiles, open_files

_OPERATOR = "transformWithState"


@dataclass(frozen=True)
class SchemaFile:
    """One that its run's metadata does not name: of other code than has begun the ``batch``.

    ``listed`` are the variables that the metadata names all the same; ``families`` are what the
    code that it was written for declares, and what Spark adds to that.
    """

    name: str
    batch: int
    listed: frozenset[str]
    families: frozenset[str]

    def has(self, variable: str) -> bool:
        """Whether the code that it was written for declares the variable."""
        return variable in self.families


@dataclass(frozen=True)
class Listing:
    """``variables`` are those that Spark lists for a committed batch, whose run ``began`` with one.

    ``before`` has the variables of earlier runs whose metadata Spark still keeps, by their first
    batch; ``reruns`` are newer schema files that the batch's metadata does not name, and
    ``rerun_before`` the same of the earlier runs. ``named`` has by run the schema files
    of its first batch that its metadata name.
    """

    variables: frozenset[str] = frozenset()
    began: int = -1
    before: Mapping[int, frozenset[str]] = field(default_factory=dict)
    reruns: tuple[SchemaFile, ...] = ()
    rerun_before: Mapping[int, tuple[SchemaFile, ...]] = field(default_factory=dict)
    named: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def may_have(self, variable: str) -> bool:
        """Whether a batch that was run again may have made a variable that is not listed."""
        return any(each.has(variable) for each in self.reruns)

    def dropped_since(self, batch: int, possible: Iterable[str] = ()) -> dict[str, int]:
        """What earlier runs that began after ``batch`` had and this one has not.

        Each variable with the last batch of the newest run that had it. Of the ``possible`` ones
        those too that Spark never listed, since a killed batch of such a run was run again.
        """
        runs = sorted(began for began in self.before if began > batch)
        ends = [began - 1 for began in (*runs[1:], self.began)] if runs else []
        hidden = [name for name in possible if not self.may_have(name)]
        return {
            name: end
            for began, end in zip(runs, ends, strict=True)
            for name in self._had(began, hidden) - self.variables
        }

    def missing_since(
        self, batch: int, families: Iterable[str], known: Collection[str] = ()
    ) -> dict[str, int]:
        """What a deployment at a batch had, and no run that began after it.

        ``known`` are the schema files that it found of batches that were begun. Each variable with
        the last batch before the first of these runs. What one of them had is for `dropped_since`;
        what Spark kept no word of is not among them.
        """
        runs = sorted(
            run
            for run in (*self.before, self.began)
            if run > batch and not self.began_before(known, run)
        )
        if not runs or not self.tells_of(batch):
            return {}
        later = {name for run in runs if run in self.before for name in self._had(run, families)}
        return {
            name: runs[0] - 1
            for name in families
            if name not in self.variables | later
            and not self.may_have(name)
            and self.had(batch, name)
        }

    def began_before(self, known: Collection[str], run: int | None = None) -> bool:
        """Whether the metadata of a run, the newest by default, are of before a deployment.

        ``known`` are the schema files that it found of batches that were begun. Code that is killed
        in such a batch leaves its metadata there; Spark keeps them when other code runs the batch.
        """
        return not self.named.get(self.began if run is None else run, frozenset()).isdisjoint(known)

    def tells_of(self, batch: int) -> bool:
        """Whether Spark still keeps the metadata of the run of a batch; it does some hundred."""
        return any(run <= batch for run in (*self.before, self.began))

    def passed_over(self, batches: range, known: Collection[str] = ()) -> dict[str, int]:
        """What was there, though code that ran one of the ``batches`` again did not declare it.

        Each variable with the first such batch. Schema files that are ``known`` do not count.
        """
        files = [*self.reruns, *(each for files in self.rerun_before.values() for each in files)]
        return {
            name: file.batch
            for file in sorted(files, key=lambda each: each.batch, reverse=True)
            if file.batch in batches and file.name not in known
            for name in file.listed
            if not file.has(name) and self.had(file.batch - 1, name)
        }

    def had(self, batch: int, variable: str) -> bool:
        """Whether the run of a batch may have had a variable; it may where Spark kept no word."""
        runs = [run for run in (*self.before, self.began) if run <= batch]
        if not runs:
            return batch >= 0
        run = max(runs)
        listed = self.variables if run == self.began else self.before[run]
        files = self.reruns if run == self.began else self.rerun_before.get(run, ())
        return variable in listed or any(f.has(variable) for f in files if f.batch <= batch)

    def _had(self, began: int, possible: Iterable[str]) -> set[str]:
        files = self.rerun_before.get(began, ())
        hidden = {name for name in possible if any(each.has(name) for each in files)}
        return hidden | self.before[began]


def check_listed(
    checkpoint: PathOrFiles, batch: int, variable: str, operator: int | None = None
) -> None:
    """Raise `CheckpointError` if a variable that Spark does not list for ``batch`` may be full.

    Spark's reader finds nothing of such a variable, which is not to say that nothing is there.
    """
    files = open_files(checkpoint)
    if read_listing(files, batch, operator, begun=False).may_have(variable):
        raise CheckpointError(
            "SM-STATE-024",
            f"family {variable} in {files.location} cannot be backfilled yet: a killed batch was "
            "run again by other code than had begun it",
            expected=f"{variable} among the variables that Spark lists for batch {batch}",
            found="it is in a schema file alone, where Spark's reader does not look",
            next_action="stop the query and start it again: the next batch that it commits lists "
            "the family; its values are in the state meanwhile, and the query reads them",
            path=files.location,
            family=variable,
        )


def was_run_again(files: Files, operator: int) -> bool:
    """Whether other code than had begun a batch has run it: its schema no metadata name.

    Spark writes a schema file where the variables change, so that few metadata are read.
    """
    runs = operator_runs(files, operator)
    written: dict[int, set[str]] = {}
    for name, batch in schema_batches(files, operator).items():
        run = max((each for each in runs if each <= batch), default=None)
        if run is not None:
            written.setdefault(run, set()).add(name)
    return any(
        not names <= set(_names(file))
        for run, names in written.items()
        if (file := operator_file(files, operator, run)) is not None
    )


def schemas_until(files: Files, operator: int, batch: int) -> list[str]:
    """The schema files of an operator up to a batch, those too that no metadata name."""
    folder, found = SCHEMAS.format(operator), schema_batches(files, operator)
    return [f"{folder}/{name}" for name in sorted(found) if found[name] <= batch]


def read_listing(
    checkpoint: PathOrFiles, batch: int, operator: int | None = None, *, begun: bool = True
) -> Listing:
    """As of a committed batch, of all operators or of one; empty where none has variables.

    Without ``begun`` the schema files of later batches, which are not in the state, do not count.
    Raises `CheckpointError` for metadata and schema files that are damaged.
    """
    files = open_files(checkpoint)
    numbers = batches_in(names_in(files, "state")) if operator is None else [operator]
    found = [_listing(files, each, batch, begun=begun) for each in numbers]
    return _merged([each for each in found if each is not None])


def _merged(listings: list[Listing]) -> Listing:
    if len(listings) <= 1:
        return listings[0] if listings else Listing()
    before: dict[int, frozenset[str]] = {}
    rerun: dict[int, tuple[SchemaFile, ...]] = {}
    named: dict[int, frozenset[str]] = {}
    for each in listings:
        for began, files in each.named.items():
            named[began] = named.get(began, frozenset()) | files
        for began, names in each.before.items():
            before[began] = before.get(began, frozenset()) | names
            rerun[began] = (*rerun.get(began, ()), *each.rerun_before.get(began, ()))
    return Listing(
        frozenset().union(*(each.variables for each in listings)),
        max(each.began for each in listings),
        before,
        tuple(file for each in listings for file in each.reruns),
        rerun,
        named,
    )


def _listing(files: Files, operator: int, batch: int, *, begun: bool) -> Listing | None:
    runs = {
        each.batch: each
        for each in operator_files(files, operator, batch)
        if each.operator_name.startswith(_OPERATOR)
    }
    if not runs:
        return None
    newest = max(runs)
    variables = {run: each.declared_variables() for run, each in runs.items()}
    schemas = _Schemas(files, operator, runs)
    last = None if begun else batch
    return Listing(
        variables.pop(newest),
        newest,
        variables,
        schemas.unnamed(newest, last),
        {run: found for run in variables if (found := schemas.unnamed(run, last))},
        {run: schemas.own(run) for run in runs},
    )


class _Schemas:
    """An operator's schema files, by the runs of the query in which they were written."""

    def __init__(self, files: Files, operator: int, runs: Mapping[int, OperatorFile]) -> None:
        self._files, self._runs = files, runs
        self._directory = SCHEMAS.format(operator)
        self._batches = schema_batches(files, operator)

    def own(self, run: int) -> frozenset[str]:
        """What the metadata of a run name of its first batch; the rest is of runs before it."""
        return frozenset(name for name in _names(self._runs[run]) if schema_batch(name) == run)

    def unnamed(self, run: int, last: int | None) -> tuple[SchemaFile, ...]:
        """What a run wrote, up to a ``last`` batch, that its own metadata does not name."""
        end = min((each for each in self._runs if each > run), default=None)
        named = set(_names(self._runs[run]))
        listed = self._runs[run].declared_variables()
        found = []
        for name, batch in self._batches.items():
            is_of_run = run <= batch and (end is None or batch < end)
            if is_of_run and name not in named and (last is None or batch <= last):
                # A running query removes those that no metadata need any more.
                with suppress(FileNotFoundError):
                    found.append(SchemaFile(name, batch, listed, self._families(name)))
        return tuple(found)

    def _families(self, name: str) -> frozenset[str]:
        families = read_schema_file(self._files, f"{self._directory}/{name}")
        return frozenset(each.name for each in families)


def begun_schemas(checkpoint: PathOrFiles, committed: int) -> set[str]:
    """The schema files of batches that were begun, maybe by several codes, and not committed."""
    files = open_files(checkpoint)
    return {
        name
        for operator in names_in(files, "state")
        for name, batch in schema_batches(files, operator).items()
        if batch > committed
    }


def _names(file: OperatorFile) -> Iterator[str]:
    """The names of the schema files that metadata name."""
    for path in file.schemas:
        yield path.rpartition("/")[2]


# Which column families RocksDB has: those of variables that Spark does not list any more, too.
# A variable that no code declares leaves Spark's metadata at once, and after some hundred batches
# each trace of it. In the database it stays, values included, and is there again as soon as code
# declares it. Only dropping it (``deleteIfExists``) takes it out.


def column_families(files: Files, batch: int, operator: int) -> frozenset[str] | None:
    """The names of the column families of an operator, as of a committed batch.

    None where the files do not say: Spark writes a snapshot when a family is made, and one from
    before it had families has none. Every task makes all of them, so the first partition tells.
    Raises `CheckpointError` for files that are missing, or are not what Spark writes.
    """
    ids = read_commit(files, batch).state_ids
    unique = None if not ids else ids[operator][0][0]
    codec = codec_of(read_entry(files, batch).conf)
    version = rocksdb_version(files, store_folder(operator, 0), batch + 1, unique, codec)
    # It loads Arrow, which commands that only look at names do without.
    from statemigrate.checkpoint.stores import snapshot_of

    snapshot = snapshot_of(files, version)
    return frozenset(snapshot.families) if snapshot is not None and snapshot.families else None
