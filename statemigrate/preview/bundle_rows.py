"""The rows of a bundle: those of a sample of the keys, with pseudonyms in place of some values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from statemigrate.checkpoint import Batch, CommittedState, OperatorFamily
from statemigrate.checkpoint.operators import is_derived, user_name
from statemigrate.errors import CheckpointError, UnsupportedError
from statemigrate.files import Files
from statemigrate.formats import Mask
from statemigrate.native import paged_names
from statemigrate.preview.inputs import RecordedInput, write_rows
from statemigrate.preview.key_sample import KeySample, same_types
from statemigrate.preview.pseudonyms import Pseudonyms, UnmaskedValues
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMES_SHOWN = 20
SampledTypes = list[tuple[str, Mapping[str, str]]]
"""The types of the columns that a sample goes by, in each place that has them."""


class BundleRows:
    """Which rows a bundle has: of a ``sample``, all where it is None, and masked by ``mask``."""

    def __init__(self, session: SparkSession, mask: Mask, sample: KeySample | None = None) -> None:
        self.session, self.mask, self.sample = session, mask, sample
        self.pseudonyms = Pseudonyms(mask)

    @property
    def are_all(self) -> bool:
        """Whether the bundle has every row as it is."""
        return self.sample is None and not self.mask.names

    def check_state(self, files: Files, batch: int) -> SampledTypes:
        """The types of the sample's columns in each family.

        Raises `UnsupportedError` for state whose rows cannot be chosen or masked.
        """
        pages = sorted(paged_names(files).values())
        if pages and self.mask.names:
            raise _encoded(f"the pages of {', '.join(pages)}")
        if self.sample is None:
            return []
        found = [*_sampled_types(self.sample, CommittedState(files, batch))]
        same_types(found)
        return found

    def check_inputs(self, state: SampledTypes, inputs: Mapping[str, RecordedInput]) -> None:
        """Raise `UnsupportedError` where rows of the input cannot be chosen as the ``state``'s."""
        if self.sample is not None:
            sources = [
                (f"source {source}", self.sample.check_input(source, each.schema))
                for source, each in inputs.items()
            ]
            same_types([*state, *sources])

    def state(self, family: OperatorFamily, keys: pa.StructArray, values: pa.Array) -> Batch:
        """The rows of a family of state in place of some."""
        if self.sample is not None:
            chosen = self.sample.chosen_keys(family.operator, family.store, family.family, keys)
            keys, values = keys.filter(chosen), values.filter(chosen)
        if not self.mask.names:
            return keys, values
        place = _name_of(family)
        return self.pseudonyms.replaced(keys, place), self.pseudonyms.replaced(values, place)

    def inputs(
        self, recorded: Mapping[str, RecordedInput], folder: Path
    ) -> dict[str, RecordedInput]:
        """The rows of the input in place of those that were ``recorded``, below a new folder."""
        found: dict[str, RecordedInput] = {}
        for source, each in recorded.items():
            place = folder / source
            place.mkdir(parents=True, mode=0o700)
            change = InputChange(source, self.mask, self.sample)
            for batch in each.batches:
                self._note_values(source, each.file(batch))
                rows = self.session.read.parquet(each.file(batch).as_uri())
                write_rows(rows.mapInArrow(change, rows.schema), place, batch)
            found[source] = replace(each, folder=place)
        return found

    def check_masked(
        self, files: Files, batches: Sequence[int], inputs: Mapping[str, RecordedInput]
    ) -> tuple[str, ...]:
        """The masked fields of a bundle.

        Raises `CheckpointError` where a name of the mask is no column's, and where another column
        has values of a masked one.
        """
        if not self.mask.names:
            return ()
        self._check_names(files, batches[0], inputs)
        unmasked = UnmaskedValues(self.pseudonyms)
        for place, rows in chain(_other_files(files), _all_rows(files, batches, inputs)):
            found = unmasked.where(rows, place)
            if found is not None:
                raise _encoded(found.place) if found.is_encoded else _unmasked(found.place)
        return tuple(sorted(self.pseudonyms.places))

    def _note_values(self, source: str, file: Path) -> None:
        """Let the pseudonyms know the values that tasks of Spark replace."""
        import pyarrow.parquet as pq

        if self.mask.names:
            for batch in pq.ParquetFile(file).iter_batches():
                self.pseudonyms.replaced(batch.to_struct_array(), f"source {source}")

    def _check_names(self, files: Files, batch: int, inputs: Mapping[str, RecordedInput]) -> None:
        there: set[str] = set()
        for each in CommittedState(files, batch).families:
            there |= {*_field_names(each.family.key), *_field_names(each.family.value)}
        for recorded in inputs.values():
            there |= {*_field_names(recorded.schema)}
        known = {each.casefold() for each in there} | self.pseudonyms.names
        missing = sorted(self.mask.names - known)
        if missing:
            raise CheckpointError(
                "SM-PREVIEW-030",
                f"no column is called {missing[0]}, which is to be masked",
                expected="names of columns of the input or of the state",
                found=", ".join(sorted(there)[:_NAMES_SHOWN]),
                next_action="name the columns to mask in this bundle with --mask; no bundle was "
                "written",
                column=missing[0],
            )


@dataclass(frozen=True)
class InputChange:
    """Changes rows of a source, in tasks of Spark."""

    source: str
    mask: Mask
    sample: KeySample | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows in place of some."""
        pseudonyms = Pseudonyms(self.mask)
        for batch in batches:
            rows = batch
            if self.sample is not None:
                columns = {
                    name.casefold(): column
                    for name, column in zip(rows.schema.names, rows.columns, strict=True)
                }
                rows = rows.filter(self.sample.chosen(columns))
            structs = rows.to_struct_array()
            yield pa.RecordBatch.from_struct_array(
                pseudonyms.replaced(structs, f"source {self.source}")
            )


def _unmasked(place: str) -> CheckpointError:
    return CheckpointError(
        "SM-PREVIEW-029",
        f"{place} has values of a masked column",
        expected="pseudonyms wherever such a value is",
        found="the values as they are",
        next_action=f"mask this column too, with --mask {argument(place)}; no bundle was written",
        column=place,
    )


def _encoded(place: str) -> UnsupportedError:
    return UnsupportedError(
        "SM-PREVIEW-026",
        f"values of a masked column may be in {place}, where they cannot have pseudonyms",
        expected="columns that Spark's metadata name",
        found="bytes with several fields",
        next_action="save the bundle without a mask; no bundle was written",
        place=place,
    )


def _other_files(files: Files) -> Iterator[tuple[str, pa.Array]]:
    """The bytes of what is no state: logs, and what this package keeps in a checkpoint."""
    for each in files.list(recursive=True):
        if each.kind == "file" and not each.name.startswith("state/"):
            yield each.name, pa.array([files.get(each.name)], pa.binary())


def _sampled_types(
    sample: KeySample, state: CommittedState
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for each in state.families:
        if not is_derived(each.family.name):
            name = _name_of(each)
            yield name, sample.check_state(name, each.operator, each.store, each.family)


def _name_of(family: OperatorFamily) -> str:
    """What people call a family: Spark's own name where only Spark looks at it."""
    name = user_name(family.operator, family.store.name, family.family.name)
    return name or f"{family.store.name} {family.family.name} of operator {family.operator.number}"


def _all_rows(
    files: Files, batches: Sequence[int], inputs: Mapping[str, RecordedInput]
) -> Iterator[tuple[str, pa.Array]]:
    import pyarrow.parquet as pq

    for number in batches:
        for each in CommittedState(files, number).families:
            for partition in range(len(each.parts)):
                for keys, values in each.rows(partition):
                    yield _name_of(each), keys
                    yield _name_of(each), values
    for source, recorded in inputs.items():
        for number in recorded.batches:
            for batch in pq.ParquetFile(recorded.file(number)).iter_batches():
                yield f"source {source}", batch.to_struct_array()


def _field_names(kind: object) -> Iterator[str]:
    """The names of all fields of a type, as Spark's JSON has it, at any depth."""
    if not isinstance(kind, Mapping):
        return
    for each in kind.get("fields", ()):
        yield str(each["name"])
        yield from _field_names(each["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _field_names(kind.get(part))
