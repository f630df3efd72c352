"""The rows of a bundle: those of a sample of the keys, with pseudonyms in place of some values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from statemigrate.errors import CheckpointError
from statemigrate.files import Files
from statemigrate.formats import Mask, columns_in
from statemigrate.preview.inputs import RecordedInput, write_rows
from statemigrate.preview.key_sample import KeySample, SampledTypes, same_types
from statemigrate.preview.pseudonyms import Pseudonyms, UnmaskedValues, unmaskable
from statemigrate.quoting import argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.preview.engines import StateRows


class BundleRows:
    """Which rows a bundle has: of a ``sample``, all where it is None, and masked by ``mask``."""

    def __init__(self, session: SparkSession, mask: Mask, sample: KeySample | None = None) -> None:
        self.session, self.mask, self.sample = session, mask, sample
        self.pseudonyms = Pseudonyms(mask)

    @property
    def are_all(self) -> bool:
        """Whether the bundle has every row as it is."""
        return self.sample is None and not self.mask.names

    def check_inputs(self, state: SampledTypes, inputs: Mapping[str, RecordedInput]) -> None:
        """Raise `UnsupportedError` where rows of the input cannot be chosen as the ``state``'s."""
        if self.sample is not None:
            sources = [
                (f"source {source}", self.sample.check_input(source, each.schema))
                for source, each in inputs.items()
            ]
            same_types([*state, *sources])

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
        self,
        state: StateRows,
        files: Files,
        batches: Sequence[int],
        inputs: Mapping[str, RecordedInput],
    ) -> tuple[str, ...]:
        """The masked fields of a bundle.

        Raises `CheckpointError` where a name of the mask is no column's, and where another column
        has values of a masked one.
        """
        if not self.mask.names:
            return ()
        self._check_names(state, files, batches, inputs)
        unmasked = UnmaskedValues(self.pseudonyms)
        others = _other_files(files, state.state_folder)
        for place, rows in chain(others, state.rows(files, batches), _input_rows(inputs)):
            found = unmasked.where(rows, place)
            if found is not None:
                raise unmaskable(found.place) if found.is_encoded else _unmasked(found.place)
        return tuple(sorted(self.pseudonyms.places))

    def _note_values(self, source: str, file: Path) -> None:
        """Let the pseudonyms know the values that tasks of Spark replace."""
        import pyarrow.parquet as pq

        if self.mask.names:
            for batch in pq.ParquetFile(file).iter_batches():
                self.pseudonyms.replaced(batch.to_struct_array(), f"source {source}")

    def _check_names(
        self,
        state: StateRows,
        files: Files,
        batches: Sequence[int],
        inputs: Mapping[str, RecordedInput],
    ) -> None:
        # The code may have changed between the first of the batches and the last one.
        there = [state.columns(files, batch) for batch in (batches[0], batches[-1])]
        sources = (columns_in(each.schema, f"source {name}") for name, each in inputs.items())
        unknown = replace(self.mask, names=self.mask.names - self.pseudonyms.names)
        unknown.require_columns(chain(*there, *sources))


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


def _other_files(files: Files, state_folder: str) -> Iterator[tuple[str, pa.Array]]:
    """The bytes of what is no state: logs, and what this package keeps in a checkpoint."""
    for each in files.list(recursive=True):
        if each.kind == "file" and not each.name.startswith(state_folder):
            yield each.name, pa.array([files.get(each.name)], pa.binary())


def _input_rows(inputs: Mapping[str, RecordedInput]) -> Iterator[tuple[str, pa.Array]]:
    import pyarrow.parquet as pq

    for source, recorded in inputs.items():
        for number in recorded.batches:
            for batch in pq.ParquetFile(recorded.file(number)).iter_batches():
                yield f"source {source}", batch.to_struct_array()
