"""No command shows what a masked column has, and with values hidden none shows any value."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as fn

import statemigrate
from statemigrate.cli.main import VERBS, main
from statemigrate.errors import NO_VALUES, CheckpointError
from statemigrate.formats.masking import MASK_KEY

pytestmark = pytest.mark.spark
SECRETS = ("hidden-customer", "hidden-card", "918273645")
"""What is in each column: the key's, a text, a number."""
SECRET = 918273645
SCRIPT = '''"""Cards become numbers, which they are not."""
from statemigrate.formats import Struct

revision = "dddd00000001"
down_revision = None
branch_labels = ("orders",)
store = "orders"
old = Struct("max STRING, max_2 BIGINT")
new = Struct("max BIGINT, max_2 BIGINT")


def upgrade(value):
    return {"max": int(value["max"]), "max_2": value["max_2"]}
'''
COMMANDS = {
    "plan": ["plan", "CP"],
    "preview": ["preview", "CP", "--code", "nothing:here"],
    "status": ["status", "CP"],
    "history": ["history", "--checkpoint", "CP"],
    "get": ["get", "orders", "CP", "hidden-customer-1"],
    "get --batches": ["get", "orders", "CP", "hidden-customer-1", "--batches"],
    "get of another type": ["get", "orders", "CP", "x", "y"],
    "export": ["export", "orders", "CP", "--output", "out.parquet"],
    "export of Avro": ["export", "orders", "CP", "--output", "out.avro"],
    "export of JSON": ["export", "orders", "CP", "--output", "out.jsonl"],
    "export to output": ["export", "orders", "CP", "--output", "-"],
    "sql": ["sql", "SELECT * FROM orders", "CP"],
    "sql that casts": ["sql", "SELECT CAST(max AS DATE) FROM orders", "CP"],
    "diff": ["diff", "CP", "--from", "0", "--to", "1"],
    "browse": ["browse", "CP", "--export", "state.html"],
    "init": ["init"],
    "new": ["new", "others", "--to", "a BIGINT", "-m", "first"],
    "new from the checkpoint": ["new", "others", "--from-checkpoint", "CP"],
    "check": ["check"],
    "dry-run": ["dry-run", "orders", "CP", "--html", "tried.html", "--junit", "tried.xml"],
    "status --failed": ["status", "CP", "--failed", "orders"],
    "status --failed --output": ["status", "CP", "--failed", "orders", "--output", "failed.jsonl"],
    "doctor": ["doctor", "CP", "--repair"],
    "explain": ["explain", "SM-STATE-001"],
    "demo": ["demo", "--help"],
    "backfill": ["backfill", "CP"],
    "rollback": ["rollback", "CP", "--to", "orders=base"],
    "rewrite": ["rewrite", "CP", "new-checkpoint", "--partitions", "3"],
    "fork": ["fork", "CP", "forked"],
}
"""Each command at least once; where it fails, its error counts."""
WITH_SCRIPT = (
    "status",
    "get",
    "export",
    "sql",
    "diff",
    "browse",
    "dry-run",
    "status --failed",
    "rollback",
)
"""Those that migrate values, which fails here, or read scripts."""


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory) -> Path:
    """A query's, whose every column has a secret, after two batches."""
    root = tmp_path_factory.mktemp("hidden")
    place, rows = root / "checkpoint", root / "rows"
    rows.mkdir()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    for batch in range(2):
        lines = [
            {
                "customer": f"hidden-customer-{n}",
                "card": f"hidden-card-{batch}",
                "amount": SECRET,
            }
            for n in range(3)
        ]
        (rows / f"{batch}.json").write_text("\n".join(map(json.dumps, lines)))
        stream = spark.readStream.schema("customer STRING, card STRING, amount BIGINT").json(
            str(rows)
        )
        counted = stream.groupBy("customer").agg(fn.max("card"), fn.max("amount"))
        writer = counted.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
        query.awaitTermination()
    return place


@pytest.fixture
def project(checkpoint, tmp_path, monkeypatch):
    """A project with the checkpoint's store under a name, and a script that fails."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(NO_VALUES, raising=False)
    monkeypatch.delenv(MASK_KEY, raising=False)
    assert typed("init").exit_code == 0
    return tmp_path


def configure(project: Path, *lines: str, script: bool = False) -> None:
    text = ("[tool.statemigrate]", 'stores = {orders = "aggregation-0"}', *lines)
    (project / "pyproject.toml").write_text("\n".join(text))
    if script:
        (project / "migrations" / "versions" / "cards.py").write_text(SCRIPT)


def typed(*words):
    return CliRunner().invoke(main, [str(each) for each in words])


def shown_by(project: Path, result) -> str:
    """All that a command has written, where people see it."""
    files = [each for each in project.rglob("*") if each.is_file()]
    # A rewritten or copied checkpoint has state as Spark has it, as the old one does.
    files = [each for each in files if not {"new-checkpoint", "forked"} & {*each.parts}]
    contents = [each.read_bytes().decode("latin-1") for each in files]
    return "\n".join([result.output, repr(result.exception), *contents])


def test_every_command_is_here():
    assert {words[0] for words in COMMANDS.values()} == {*VERBS}


@pytest.mark.parametrize("hiding", ["mask", "no values"])
@pytest.mark.parametrize(
    ("command", "with_script"),
    [*((each, False) for each in COMMANDS), *((each, True) for each in WITH_SCRIPT)],
)
def test_no_command_shows_what_is_hidden(project, checkpoint, command, hiding, with_script):
    if hiding == "mask":
        configure(project, 'mask = ["Customer", "MAX", "max_2"]', script=with_script)
        options = []
    else:
        configure(project, script=with_script)
        options = ["--no-values"]
    words = [str(checkpoint) if each == "CP" else each for each in COMMANDS[command]]
    for more in ([], ["--json", "--debug"]):
        text = shown_by(project, typed(*options, *more, *words))
        for secret in SECRETS:
            # A command repeats what its user typed.
            assert secret not in text.replace("hidden-customer-1", "") or secret in " ".join(words)


def test_without_a_mask_the_same_commands_show_it(project, checkpoint):
    configure(project)
    for command in ("get", "get --batches", "export to output", "sql", "diff"):
        words = [str(checkpoint) if each == "CP" else each for each in COMMANDS[command]]
        assert "918273645" in shown_by(project, typed(*words))


def test_a_masked_column_has_equal_hashes_for_equal_values_in_every_form(project, checkpoint):
    configure(project, 'mask = ["customer", "max_2"]')
    found = json.loads(typed("--json", "sql", "SELECT * FROM orders", checkpoint).stdout)
    place = found["columns"].index("max_2")
    (amount,) = {row[place] for row in found["rows"]}
    assert typed("export", "orders", checkpoint, "--output", "out.parquet").exit_code == 0
    rows = pq.read_table("out.parquet").to_pylist()
    assert {each["value"]["max_2"] for each in rows} == {amount}
    customers = {row[found["columns"].index("customer")] for row in found["rows"]}
    assert {each["key"]["customer"] for each in rows} == customers
    assert {each["value"]["max"] for each in rows} == {"hidden-card-1"}
    one = json.loads(typed("get", "orders", checkpoint, "hidden-customer-1").stdout)
    assert one == {"max": "hidden-card-1", "max_2": amount}


def test_a_column_of_one_store_is_masked_by_either_name_of_the_store(project, checkpoint):
    for name in ("orders.max_2", "aggregation-0.MAX_2"):
        configure(project, f'mask = ["customer", "{name}"]')
        for command in ("get", "get --batches", "export to output", "sql", "diff"):
            words = [str(checkpoint) if each == "CP" else each for each in COMMANDS[command]]
            text = shown_by(project, typed(*words))
            assert "hidden-card" in text, command
            assert "918273645" not in text, command


MASKED = ("get", "get --batches", "export to output", "export", "sql", "diff", "browse")


@pytest.mark.parametrize("name", ["costumer", "others.customer", "card"])
def test_a_mask_that_no_column_has_is_refused_before_anything_is_shown(project, checkpoint, name):
    configure(project, f'mask = ["customer", "{name}"]')
    for command in MASKED:
        words = [str(checkpoint) if each == "CP" else each for each in COMMANDS[command]]
        ran = typed("--json", *words)
        assert ran.exit_code == 1, command
        error = json.loads(ran.stderr)["error"]
        assert (error["code"], error["data"]["column"]) == ("SM-PREVIEW-030", name)
        assert error["found"] == "customer, max, max_2"
        assert "hidden-c" not in shown_by(project, ran).replace("hidden-customer-1", "")


def test_a_mask_of_several_checkpoints_may_name_a_column_of_another_one(
    project, checkpoint, caplog
):
    paths = f'checkpoints = {{one = "{checkpoint}", other = "elsewhere"}}'
    configure(project, 'mask = ["customer", "max_2", "card"]', paths)
    found = shown_by(project, typed("sql", "SELECT * FROM orders", "one"))
    assert "hidden-card" in found
    assert "918273645" not in found
    assert "card, which `mask` names" in caplog.text


def test_functions_refuse_a_mask_that_no_column_has(project, checkpoint):
    looks = {
        "open_state": lambda mask: statemigrate.open_state(checkpoint, batch=0, mask=mask),
        "sql": lambda mask: statemigrate.sql("SELECT 1", checkpoint, mask=mask),
        "sql of several": lambda mask: statemigrate.sql(
            "SELECT 1", checkpoints={"a": checkpoint, "b": checkpoint}, mask=mask
        ),
        "diff": lambda mask: statemigrate.diff(checkpoint, mask=mask),
        "diff of two": lambda mask: statemigrate.diff(checkpoint, checkpoint, mask=mask),
        "get": lambda mask: statemigrate.get("aggregation-0", checkpoint, "x", mask=mask),
        "export": lambda mask: statemigrate.export(
            "aggregation-0", checkpoint, project / "out.jsonl", mask=mask
        ),
        "browse": lambda mask: statemigrate.browse(checkpoint, mask=mask).close(),
        "browse_page": lambda mask: statemigrate.browse_page(checkpoint, mask=mask),
    }
    for name, look in looks.items():
        look(["Max_2"])
        with pytest.raises(CheckpointError) as raised:
            look(["Max_2", "max_3"])
        assert raised.value.code == "SM-PREVIEW-030", name


def test_a_hash_is_of_this_process_alone_unless_a_secret_is_given(checkpoint, monkeypatch):
    def hashes():
        table = statemigrate.open_state(checkpoint, migrations=None, mask=["customer"])
        return set(table["aggregation-0"].to_arrow()["customer"].to_pylist())

    monkeypatch.delenv(MASK_KEY, raising=False)
    drawn = hashes()
    assert drawn == hashes()
    monkeypatch.setenv(MASK_KEY, "one secret")
    assert not drawn & hashes()
    assert hashes() == hashes()
