"""A stopped query's partitions are worked on by several processes, as if by one."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from support import checkpoints

import statemigrate
from statemigrate import open_state
from statemigrate.budget import BackfillOptions
from statemigrate.embedded import offline
from statemigrate.embedded.continuation import require_committed
from statemigrate.embedded.layout import Layout
from statemigrate.embedded.processes import Waiting, shared_out
from statemigrate.errors import CheckpointError, TransformError
from statemigrate.state import embedded as embedded_blocks

pytestmark = pytest.mark.long(weight=1 / 7)

COUNT = 3_000
SMALL = BackfillOptions(initial_rows=200, maximum_rows=400)


@pytest.fixture
def several(monkeypatch):
    """Even little is shared out, among two processes, in small chunks."""
    monkeypatch.setattr(offline, "_FEW", 0)
    monkeypatch.setattr(offline, "_CHUNK", SMALL)
    monkeypatch.setattr(offline, "cores", lambda: 2)


def script(first_lines):
    """The script whose transform begins with these lines."""
    body = textwrap.indent(textwrap.dedent(first_lines), "    ")
    return checkpoints.SCRIPT.replace("def upgrade(value):\n", f"def upgrade(value):\n{body}\n")


def prepared(root, text=checkpoints.SCRIPT, count=COUNT):
    return checkpoints.items(root, count), checkpoints.scripts(root, text)


def entries(checkpoint, folder):
    with open_state(checkpoint, migrations=folder) as state:
        return {key[0]: value for key, value in state["items"].entries()}


def left(checkpoint):
    states = require_committed(Layout.of(checkpoint)).partitions
    return sum(state.about("items") for state in states)


def expected(number):
    return {"amount": Decimal(number * 3).scaleb(-2), "name": f"item {number}"}


def test_all_values_are_migrated_and_progress_only_grows(several, tmp_path):
    note = tmp_path / "processes"
    checkpoint, folder = prepared(
        tmp_path,
        script(f"import os, pathlib\npathlib.Path({str(note)!r}, str(os.getpid())).touch()"),
    )
    note.mkdir()
    told = []
    done = statemigrate.backfill(
        checkpoint, migrations=folder, progress=lambda *figures: told.append(figures)
    )
    assert (done.migrated, done.quarantined, dict(done.left)) == (COUNT, 0, {"items": 0})
    assert len(told) > 8
    assert told == sorted(told)
    assert {total for _, total in told} == {COUNT}
    assert told[-1][0] == COUNT
    processes = {path.name for path in note.iterdir()}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes
    assert entries(checkpoint, folder) == {n: expected(n) for n in range(COUNT)}
    assert statemigrate.backfill(checkpoint, migrations=folder, retire=True).dropped == ("items",)
    assert entries(checkpoint, folder) == {n: expected(n) for n in range(COUNT)}


def test_what_is_durable_is_that_of_one_process(several, monkeypatch, tmp_path):
    held = []
    for number, processes in enumerate((1, 2)):
        monkeypatch.setattr(offline, "cores", lambda processes=processes: processes)
        root = tmp_path / str(number)
        root.mkdir()
        checkpoint, folder = prepared(root)
        statemigrate.backfill(checkpoint, migrations=folder)
        states = require_committed(Layout.of(checkpoint)).partitions
        held.append([(s.entries, s.quarantined, s.snapshot.records, s.changelogs) for s in states])
    assert held[0] == held[1]


def test_an_error_of_a_transform_travels_whole_and_what_was_done_stays(several, tmp_path):
    checkpoint, folder = prepared(
        tmp_path, script('if value["cents"] == 6_003: raise KeyError("x")')
    )
    with pytest.raises(TransformError) as raised:
        statemigrate.backfill(checkpoint, migrations=folder)
    assert raised.value.data["key"] == (2_001,)
    assert "KeyError: 'x'" in raised.value.found
    assert 0 < left(checkpoint) < COUNT
    done = statemigrate.backfill(checkpoint, migrations=folder, on_error="quarantine")
    assert (done.quarantined, dict(done.left)) == (1, {"items": 1})


def test_what_a_transform_prints_is_no_answer(several, tmp_path, capfd):
    checkpoint, folder = prepared(tmp_path, script('print("hello", value["cents"])'), count=20)
    assert statemigrate.backfill(checkpoint, migrations=folder).migrated == 20
    assert "hello 57" in capfd.readouterr().err


@pytest.mark.kill
def test_a_process_that_is_killed_is_named_and_the_next_run_goes_on(several, tmp_path):
    flag = tmp_path / "deadly"
    flag.touch()
    checkpoint, folder = prepared(
        tmp_path,
        script(
            f"""
            import os, pathlib
            if value["cents"] == 6_003 and pathlib.Path({str(flag)!r}).exists():
                os.kill(os.getpid(), 9)
            """
        ),
    )
    with pytest.raises(CheckpointError, match="a process that worked on partition 1") as raised:
        statemigrate.backfill(checkpoint, migrations=folder)
    assert raised.value.found == "it ended with status -9"
    rest = left(checkpoint)
    assert 0 < rest < COUNT
    flag.unlink()
    assert statemigrate.backfill(checkpoint, migrations=folder).migrated == rest
    assert entries(checkpoint, folder) == {n: expected(n) for n in range(COUNT)}


@pytest.mark.kill
def test_processes_end_with_the_command_that_is_killed(tmp_path):
    note = tmp_path / "processes"
    note.mkdir()
    checkpoint, folder = prepared(
        tmp_path,
        script(
            f"""
            import os, pathlib, time
            pathlib.Path({str(note)!r}, str(os.getpid())).touch()
            time.sleep(0.05)
            """
        ),
    )
    program = f"""
from statemigrate.embedded import offline
import statemigrate
offline._FEW, offline.cores = 0, lambda: 2
statemigrate.backfill({str(checkpoint)!r}, migrations={str(folder)!r})
"""
    command = subprocess.Popen([sys.executable, "-c", program])
    wait_for(lambda: len(list(note.iterdir())) == 2)
    command.send_signal(signal.SIGKILL)
    command.wait()
    wait_for(lambda: not any(is_running(int(path.name)) for path in note.iterdir()))


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def fails(number):
    yield {"number": number}
    raise RuntimeError("a mistake of this package")


def test_a_mistake_is_an_error_that_says_where():
    told = shared_out(fails, [3, 4], 2)
    assert next(told)[1]["number"] in (3, 4)
    with pytest.raises(CheckpointError, match="partition") as raised:
        list(told)
    assert "a mistake of this package" in raised.value.found


def counts(number):
    yield from ({"number": number, "step": step} for step in range(3))


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_each_partition_is_worked_on_once_and_in_order(processes):
    found = list(shared_out(counts, range(7), processes))
    for number in range(7):
        steps = [each for at, each in found if at == number]
        assert steps == [{"number": number, "step": step} for step in range(3)]
    assert len(found) == 21


def test_processes_that_wait_take_what_there_is_and_end_with_nothing_to_do():
    before, waiting = children(), Waiting()
    waiting.start(1)
    assert children() == before
    for _ in range(2):
        waiting.start(2, "decimal")
        assert len(children() - before) == 2
        found = sorted((at, each["step"]) for at, each in shared_out(counts, range(3), 2, waiting))
        assert found == [(number, step) for number in range(3) for step in range(3)]
        assert children() == before
    waiting.start(2)
    waiting.end()
    assert children() == before


@pytest.mark.kill
def test_a_process_that_is_killed_while_it_waits_is_an_error():
    before, waiting = children(), Waiting()
    waiting.start(2)
    os.kill(int(min(children() - before)), signal.SIGKILL)
    with pytest.raises(CheckpointError, match="a process that worked on partition"):
        list(shared_out(counts, range(4), 2, waiting))
    assert children() == before


def test_scripts_that_cannot_be_used_end_what_was_started_beside_them(several, tmp_path):
    checkpoint, folder = prepared(tmp_path, "nonsense(", count=20)
    before = children()
    with pytest.raises(statemigrate.ScriptError):
        statemigrate.backfill(checkpoint, migrations=folder)
    assert children() == before
    assert left(checkpoint) == 20


def children():
    """The processes that this one has started and that are still there."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def exported(checkpoint, folder, to, processes, monkeypatch):
    """What progress was told while so many processes wrote the file."""
    monkeypatch.setattr(embedded_blocks, "_FEW", 0 if processes else COUNT + 1)
    monkeypatch.setattr(embedded_blocks, "ENTRIES_IN_BLOCK", 100)
    monkeypatch.setattr(embedded_blocks, "cores", lambda: processes)
    told = []
    done = statemigrate.export(
        "items",
        checkpoint,
        to,
        migrations=folder,
        accept_edited=(checkpoints.REVISION,),
        progress=lambda number, _: told.append(number),
    )
    assert done.keys == COUNT
    assert oct(to.stat().st_mode & 0o777) == "0o600"
    return told


def records_in(file):
    """What an export has, read by another library where there is one."""
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text().splitlines()]
    if file.suffix == ".parquet":
        return pq.read_table(file).to_pylist()
    with file.open("rb") as stream:
        return list(fastavro.reader(stream))


@pytest.mark.parametrize("suffix", [".jsonl", ".avro", ".parquet"])
def test_an_export_of_several_processes_is_that_of_one(several, monkeypatch, tmp_path, suffix):
    checkpoint, folder = prepared(
        tmp_path, script('if value["cents"] == 6_003: raise KeyError("x")')
    )
    with pytest.raises(TransformError):
        statemigrate.backfill(checkpoint, migrations=folder)
    assert 0 < left(checkpoint) < COUNT
    (folder / "versions" / "amounts.py").write_text(checkpoints.SCRIPT)
    # No process beside, not even a part; then parts by one, and by two.
    alone = tmp_path / f"0{suffix}"
    exported(checkpoint, folder, alone, 0, monkeypatch)
    plain = records_in(alone)
    numbers = [*range(0, COUNT, 2), *range(1, COUNT, 2)]
    assert [each["key"]["id"] for each in plain] == numbers
    amounts = [Decimal(str(each["value"]["amount"])) for each in plain]
    assert amounts == [Decimal(number * 3).scaleb(-2) for number in numbers]
    for processes in (1, 2):
        to = tmp_path / f"{processes}{suffix}"
        told = exported(checkpoint, folder, to, processes, monkeypatch)
        assert records_in(to) == plain
        assert suffix != ".jsonl" or to.read_bytes() == alone.read_bytes()
        assert told == sorted(told)
        assert told[-1] == COUNT


@pytest.mark.kill
def test_an_export_whose_process_is_killed_leaves_no_file(several, monkeypatch, tmp_path):
    deadly = 'import os\nif value["cents"] == 6_003: os.kill(os.getpid(), 9)'
    checkpoint, folder = prepared(tmp_path, script(deadly))
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="a process that worked on partition 1"):
        exported(checkpoint, folder, tmp_path / "out.jsonl", 2, monkeypatch)
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ("backfill",),
        ("backfill", "--retire"),
        ("status",),
    ],
    ids=lambda w: w[0],
)
def test_little_state_is_done_without_what_takes_long_to_load(words, tmp_path):
    checkpoint, folder = prepared(tmp_path, count=20)
    if words != ("backfill",):
        statemigrate.backfill(checkpoint, migrations=folder)
    loaded = modules_after("--migrations", folder, *words, "--checkpoint", checkpoint)
    heavy = {"pyspark", "fastavro", "alembic", "mako", "sqlalchemy", "multiprocessing.connection"}
    # Changelogs are Arrow's, which loads numpy; and a status is drawn as a table.
    heavy |= {"pyarrow", "numpy"} if words == ("status",) else {"rich"}
    assert loaded & heavy == set()
    assert "rocksdict" in loaded or words == ("status",)


def modules_after(*words):
    """What a command of its own has loaded by its end."""
    program = (
        "import sys\n"
        "from statemigrate.cli import main\n"
        f"try:\n    main({[str(word) for word in words]})\n"
        "finally:\n    print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.splitlines()[-1].split())
