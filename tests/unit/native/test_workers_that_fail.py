"""What is taken from Spark's words about a job whose workers could not be asked."""

import pytest

from statemigrate.processor.workers import _failure

ABORTED = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 "
    "failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) "
    "(10.0.0.7 executor 1): "
)
PYTHON = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n'
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
    "worker has different version: 3.12 than that in driver: 3.11\n\n"
    "\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)\n"
)


@pytest.mark.parametrize(
    ("text", "host", "found"),
    [
        (ABORTED + PYTHON, "10.0.0.7", "[PYTHON_VERSION_MISMATCH]"),
        (
            ABORTED + 'java.io.IOException: Cannot run program "x": error=2\n\tat java.lang\n',
            "10.0.0.7",
            'Cannot run program "x"',
        ),
        (
            ABORTED + "org.apache.spark.SparkException: \nError from python worker:\n"
            "  python3.12: command not found\nPYTHONPATH was:\n  /x\n\tat org.apache\n",
            "10.0.0.7",
            "python3.12: command not found",
        ),
        ("Answer from Java side is empty", None, "Answer from Java side is empty"),
    ],
)
def test_the_host_and_the_line_that_says_why_are_found(text, host, found):
    where, why = _failure(text)
    assert where == host
    assert found in why
    assert "\n" not in why
