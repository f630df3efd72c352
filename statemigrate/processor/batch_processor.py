"""A processor that gets the rows and the state of many keys at once, as Arrow tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from statemigrate.errors import ProcessorError
from statemigrate.processor.key_blocks import KeyBlock, KeyBlocks, aggregated
from statemigrate.processor.startup import called_by_key
from statemigrate.processor.state_columns import StateColumns


class BatchProcessor(StatefulProcessor):
    """A processor that takes many keys at once, as tables of pyarrow: embedded, or in pages.

    Write ``init`` as for any ``StatefulProcessor``, and `handleBatch` in place of
    ``handleInputRows``. Variables, migrations and stored bytes are the same: a query may go from
    one kind of processor to the other at any restart, and back.
    """

    @abstractmethod
    def handleBatch(self, keys: Any, rows: Any, state: Any, timerValues: Any) -> tuple[Any, Any]:
        """Return the new state of some keys, and the output, each a table or None.

        ``keys`` has the grouping columns, and each key once. ``rows`` has all rows of these keys
        with all columns of the stream; rows of one key stand together, in the order of ``keys``.

        ``state`` has the grouping columns and a column for each variable: structs for value state,
        lists of structs for list state, and for map state lists of structs with ``key`` and
        ``value``. A variable is null for a key that has no value.

        The returned state has the grouping columns, with a row for each key in any order, and the
        columns of those variables that change. Null, or an empty list, removes a value. None
        changes nothing. The output has the columns of ``outputStructType``.

        ``timerValues`` has the time of the batch, as in ``handleInputRows``. Tables may also be of
        Polars, or of pandas. A call has some thousands of keys, in pages those of one page, and
        fewer where rows or values are large. Each key is in one call of a micro-batch.

        Where values expire, the time of one begins again if its variable is returned. Elements
        with which a list begins as before, and entries of a map that do not change, keep theirs.
        """

    @staticmethod
    def aggregate(keys: Any, rows: Any, aggregations: Sequence[Any]) -> Any:
        """Aggregate the rows of each key, one row a key in the order of ``keys`` and ``state``.

        ``aggregations`` are those of ``pyarrow.TableGroupBy.aggregate``, such as
        ``[("price", "sum"), ([], "count_all")]``, whose columns ``price_sum`` and ``count_all``
        follow the grouping columns. pyarrow's own ``group_by`` changes the order of the keys, and
        Polars' does without ``maintain_order=True``.
        """
        return aggregated(keys, rows, aggregations)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> NoReturn:  # noqa: ARG002
        """Never called: an engine takes tables, or refuses a batch processor."""
        raise called_by_key(self)

    def close(self) -> None:
        """Do nothing; a processor may release what its ``init`` has opened."""


def processed_blocks(
    processor: BatchProcessor, blocks: KeyBlocks, state: StateColumns, times: Any
) -> Iterator[tuple[KeyBlock, Any]]:
    """Call a processor for each block, and write the state that it returns; gives the outputs.

    Raises `ProcessorError` and `ValueMismatchError` for what it must not return.
    """
    for block in blocks:
        found = state.read(block.keys)
        returned = processor.handleBatch(block.keys, block.rows, found.table, times)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ProcessorError(
                "SM-PROCESSOR-003",
                "a batch processor did not return a pair",
                expected="(state, output), each None or a table",
                found=type(returned).__name__,
                next_action="return both from handleBatch, None for what does not change",
            )
        new_state, output = returned
        found.write(new_state)
        blocks.fit_to(block.keys.num_rows, block.rows.nbytes + found.size)
        yield block, output
