"""Little output of a partition travels with its report, more of it goes to Spark as it comes."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from statemigrate.embedded.batch_output import LittleOutput, most_with_report, read_output
from statemigrate.embedded.task import OutputRows
from statemigrate.embedded.task_plan import OUTPUT, REPORT, PartitionReport

SCHEMA = StructType([StructField("k", StringType()), StructField("n", LongType())])


def sent(most: int, *blocks: list[tuple[str, int]], failed: bool = False) -> list[dict]:
    """The rows that Spark gets of a partition with these blocks of output."""
    output, little = OutputRows(SCHEMA), LittleOutput(most)
    batches = []
    for rows in blocks:
        output.add(iter(rows))
        for batch in output.flush():
            batches += little.added(batch)
    batches.append(little.reported(output.report(PartitionReport(7)), failed=failed))
    assert {batch.schema for batch in batches} == {batches[0].schema}
    return [row for batch in batches for row in batch.to_pylist()]


def of_report(rows: list[dict]) -> list[tuple[str, int]] | None:
    """What has come with the report, the last of ``rows``; None if there is no output with it."""
    assert json.loads(rows[-1][REPORT])["partition"] == 7
    data = rows[-1][OUTPUT]
    return (
        None if data is None else [tuple(row.values()) for row in read_output([data]).to_pylist()]
    )


ONE, TWO = [("a", 1), ("b", 2)], [("c", 3), (None, None)]


def test_little_output_comes_with_the_report_and_nothing_before_it():
    rows = sent(1_000, ONE, TWO)
    assert len(rows) == 1
    assert of_report(rows) == ONE + TWO


def test_no_output_is_little_output():
    assert of_report(sent(1_000)) == []


def test_more_output_goes_to_spark_in_its_order_and_none_of_it_with_the_report():
    big = [("x" * 400, n) for n in range(3)]
    rows = sent(1_000, ONE, big, TWO)
    assert [(row["k"], row["n"]) for row in rows[:-1]] == ONE + big + TWO
    assert {row[REPORT] for row in rows[:-1]} == {row[OUTPUT] for row in rows[:-1]} == {None}
    assert of_report(rows) is None


def test_without_room_all_output_goes_to_spark():
    rows = sent(0, ONE)
    assert [(row["k"], row["n"]) for row in rows[:-1]] == ONE
    assert of_report(rows) is None
    assert of_report(sent(0)) is None


def test_a_partition_that_failed_hands_out_no_output():
    rows = sent(1_000, ONE, failed=True)
    assert len(rows) == 1
    assert of_report(rows) is None


def test_the_bytes_that_the_driver_takes_are_shared_by_the_partitions():
    found = [most_with_report(SCHEMA, partitions) * partitions for partitions in (1, 4, 64)]
    assert found == [1 << 20] * 3


ELSEWHERE = {
    "a list": StructType().add("a", ArrayType(LongType())),
    "a struct": StructType().add("a", SCHEMA),
    "a text with a collation": StructType().add("a", StringType("UNICODE_CI")),
    "a text of a length": StructType().add("a", CharType(3)),
    "an interval": StructType().add("a", DayTimeIntervalType()),
    "a name twice": StructType().add("a", LongType()).add("a", StringType()),
    "no column": StructType(),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_output_that_is_not_plain_goes_to_spark(case):
    assert most_with_report(ELSEWHERE[case], 4) == 0


def test_required_numbers_texts_and_times_are_plain():
    schema = StructType([StructField("a", LongType(), False), StructField("b", StringType())])
    schema.add("c", DecimalType(38, 18)).add("d", TimestampType()).add("e", TimestampNTZType())
    assert most_with_report(schema, 4) == 1 << 18


def test_output_of_several_partitions_is_one_table():
    streams = [sent(1_000, rows)[-1][OUTPUT] for rows in (ONE, [], TWO)]
    table = read_output(streams)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["k", "n"]
    assert [tuple(row.values()) for row in table.to_pylist()] == ONE + TWO
