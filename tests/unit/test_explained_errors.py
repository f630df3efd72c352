"""`explain`: our codes and Spark's errors, in a word, in a message and in a log."""

import json
import re
import zipfile
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner

from statemigrate import explain
from statemigrate.cli import main
from statemigrate.commands.explain import errors_of_spark
from statemigrate.errors import CorruptFileError, error_codes

LOG = """\
26/11/24 10:00:00 ERROR MicroBatchExecution: Query [id = 1, runId = 2] terminated with error
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated \
with exception: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred
Caused by: statemigrate.errors.CorruptFileError: state/1.delta is missing [SM-CHECKPOINT-023]
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: statemigrate.errors.CorruptFileError: state/1.delta is missing [SM-CHECKPOINT-023]
"""


def codes(text) -> list[str]:
    return [each.code for each in explain(text)]


def test_a_code_is_explained_as_the_registry_has_it():
    (found,) = explain("SM-CHECKPOINT-003")
    entry = error_codes()["SM-CHECKPOINT-003"]
    assert (found.title, found.cause, found.cure) == (entry.title, entry.cause, entry.cure)
    assert (found.origin, found.line, found.count) == ("statemigrate", 1, 1)


def test_a_code_in_small_letters_is_the_same():
    assert codes("sm-checkpoint-003") == ["SM-CHECKPOINT-003"]


def test_an_error_explains_itself_by_its_text():
    error = CorruptFileError("SM-CHECKPOINT-023", "a file is missing", found="nothing")
    assert codes(str(error)) == ["SM-CHECKPOINT-023"]


def test_a_log_has_each_error_once_with_its_lines():
    found = explain(LOG)
    assert [(each.code, each.line, each.count) for each in found] == [
        ("CANNOT_LOAD_STATE_STORE", 2, 1),
        ("SM-CHECKPOINT-023", 3, 2),
    ]


def test_lines_may_come_one_at_a_time():
    assert explain(iter(LOG.splitlines(keepends=True))) == explain(LOG)


@pytest.mark.parametrize("text", ["", "nothing of ours", "SM-CHECKPOINT-999", "XSM-STATE-0011"])
def test_what_is_not_known_is_not_explained(text):
    assert explain(text) == []


def test_an_error_that_wraps_others_is_explained_where_it_is_alone():
    wrapper = "[STREAM_FAILED] Query [id = 1] terminated with exception: "
    assert codes(wrapper + "division by zero") == ["STREAM_FAILED"]
    assert codes(wrapper + "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.") == [
        "CONCURRENT_STREAM_LOG_UPDATE"
    ]


def conditions_of_spark() -> dict[str, str]:
    """The name of each error of the Spark that is installed, and its message."""
    package = Path(pyspark.__file__).parent
    (jar,) = package.glob("jars/spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        ours = json.loads(archive.read("error/error-conditions.json"))
    ours |= json.loads((package / "errors" / "error-conditions.json").read_text())
    found = {}
    for name, entry in ours.items():
        found[name] = " ".join(entry["message"])
        for part, each in entry.get("subClass", {}).items():
            found[f"{name}.{part}"] = " ".join(each["message"])
    return found


def test_every_condition_that_is_known_here_is_spark_s():
    from statemigrate.commands.explain import _of_spark

    known = {name for each in _of_spark() for name in each.conditions}
    own_names = {each.code for each in errors_of_spark()}
    newest = pyspark.__version__ >= "4.3"
    missing = known - own_names - set(conditions_of_spark())
    assert missing == set() or not newest


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            "java.lang.AssertionError: assertion failed: There are [1] sources in the checkpoint "
            "offsets and now there are [2] sources requested by the query. Cannot continue.",
            "NUMBER_OF_SOURCES",
        ),
        (
            "pyspark.errors.exceptions.captured.StreamingQueryException: Concurrent update to the "
            "log. Multiple streaming jobs detected for 7.",
            "CONCURRENT_STREAM_LOG_UPDATE",
        ),
        (
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "PYTHON_WORKER_CRASHED",
        ),
        ("ModuleNotFoundError: No module named 'pandas'", "PACKAGE_NOT_INSTALLED"),
        (
            "ImportError: cannot import name 'descriptor' from 'google.protobuf' (unknown)",
            "PACKAGE_NOT_INSTALLED",
        ),
        (
            "[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed; however, it was not found.",
            "PACKAGE_NOT_INSTALLED",
        ),
        (
            "[UNSUPPORTED_FEATURE.STATE_STORE_MULTIPLE_COLUMN_FAMILIES] The feature is not "
            "supported: Creating multiple column families with HDFSBackedStateStoreProvider",
            "STATE_STORE_MULTIPLE_COLUMN_FAMILIES",
        ),
        (
            "[STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED] Streaming real-time",
            "CHECKPOINT_FORMAT_V1_NOT_SUPPORTED",
        ),
    ],
)
def test_errors_of_spark_are_known_by_their_texts(line, code):
    assert codes(line) == [code]


def test_each_condition_of_spark_leads_to_one_explanation():
    from statemigrate.commands.explain import _of_spark

    for each in _of_spark():
        for name in each.conditions:
            assert codes(f"[{name}] x") == [each.explanation.code]


def test_cures_name_commands_and_codes_that_exist():
    for each in errors_of_spark():
        for verb in re.findall(r"`statemigrate ([a-z-]+)", f"{each.cause} {each.cure}"):
            assert verb in main.list_commands(None)


def run(*arguments, **options):
    return CliRunner().invoke(main, ["explain", *arguments], **options)


def test_the_command_prints_cause_and_cure():
    result = run("SM-CHECKPOINT-003")
    entry = error_codes()["SM-CHECKPOINT-003"]
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"SM-CHECKPOINT-003  {entry.title}",
        f"  cause: {entry.cause}",
        f"  what to do: {entry.cure}",
    ]


def test_the_command_takes_the_words_of_an_error_without_quotes():
    result = run("Error:", "state/1.delta", "is", "missing", "[SM-CHECKPOINT-023]")
    assert result.exit_code == 0
    assert result.stdout.startswith("SM-CHECKPOINT-023  ")


@pytest.mark.parametrize("named", [(), ("-",)])
def test_the_command_reads_a_log_and_says_in_which_lines(named):
    result = run(*named, input=LOG)
    assert result.exit_code == 0
    assert "  found: in 2 lines, the first is line 3\n" in result.stdout


def test_a_log_that_is_not_utf_8_is_read():
    result = run(input=b"\xff\xfe SM-CHECKPOINT-003\n")
    assert (result.exit_code, result.stdout[:17]) == (0, "SM-CHECKPOINT-003")


def test_the_command_prints_json():
    result = run("--json", input=LOG)
    assert [(each["code"], each["origin"], each["line"]) for each in json.loads(result.stdout)] == [
        ("CANNOT_LOAD_STATE_STORE", "Spark", 2),
        ("SM-CHECKPOINT-023", "statemigrate", 3),
    ]


def test_what_is_unknown_ends_with_1():
    result = run("nothing", "of", "ours")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Nothing is known about this" in result.stderr
    result = run("--json", "nothing")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "[]\n", "")
