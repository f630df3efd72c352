"""What a worker is asked with nothing of this package, and Spark's words where it cannot be."""

import json
import pickle

import pytest

from statemigrate.processor.workers import _by_value, _failure, _worker_report

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


def test_what_asks_a_worker_needs_nothing_of_the_module_that_it_is_in():
    ask = _by_value(_worker_report)
    assert set(ask.__globals__) == {"__builtins__"}
    wanted = {"imported": {"none": ("none_of_this_name",)}, "payload": pickle.dumps(len)}
    found = json.loads(ask(**wanted, modules=("json", "nowhere_to_be_found")))
    assert found["missing"] == {
        "none": "ModuleNotFoundError: No module named 'none_of_this_name'",
    }
    assert found["scripts"] == "ModuleNotFoundError: No module named 'nowhere_to_be_found'"
    lost = json.loads(ask(imported={}, payload=b"nothing of a pickle", modules=()))
    assert "UnpicklingError" in lost["scripts"]
