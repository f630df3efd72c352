"""Every error has a code that one registry explains, and that never changes."""

import ast
import importlib.util
import json
import pickle
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

import statemigrate
from statemigrate.cli.main import VERBS, main
from statemigrate.commands.examination import Examined
from statemigrate.commands.explain import errors_of_spark
from statemigrate.errors import (
    CODE,
    CheckpointError,
    RewriteError,
    StatemigrateError,
    TransformError,
    error_codes,
)
from statemigrate.state.protocol import CarriesErrors, reraising_worker_errors

PACKAGE = Path(statemigrate.__file__).parent
ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "error_codes.txt"
PASSED_ON = {"code", "self.code", "cause.code", "document['code']"}
"""How code may hand on a code that another place has as a literal."""


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """The syntax of each module of the package, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): [*ast.walk(ast.parse(path.read_text("utf-8")))]
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def error_classes() -> set[str]:
    """The names of all classes of the package that descend from `StatemigrateError`."""
    classes = [node for each in nodes().values() for node in each if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    names = {"StatemigrateError"}
    while names:
        found |= names
        names = {
            each.name for each in classes if found & {ast.unparse(base) for base in each.bases}
        } - found
    return found


def last_name(function: ast.expr) -> str | None:
    """``c`` of ``a.b.c``. To write a node as text takes long, and there are a hundred thousand."""
    return getattr(function, "attr", None) or getattr(function, "id", None)


def constructions():
    """Each call of such a class: where it is, and its first argument."""
    names = error_classes()
    for path, found in nodes().items():
        for node in found:
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield f"{path}:{node.lineno}", node.args[0] if node.args else None


def helpers():
    """Each call of a function that takes a code for the error it makes, and its first argument."""
    for path, found in nodes().items():
        own = {
            each.name
            for each in found
            if isinstance(each, ast.FunctionDef)
            and ast.unparse(each.returns or ast.Constant("")).endswith("Error")
            and [arg.arg for arg in each.args.args if arg.arg != "self"][:1] == ["code"]
        }
        named = own | {"wrong_part", "step.error", "step.failure"} | {f"self.{n}" for n in own}
        last = {name.rpartition(".")[2] for name in named}
        for node in found:
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) in last
                and ast.unparse(node.func) in named
            ):
                yield f"{path}:{node.lineno}", node.args[0]


def literals():
    """Each code that is a text of its own in the package, and where."""
    for path, found in nodes().items():
        for node in found:
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and CODE.fullmatch(text):
                yield text, f"{path}:{node.lineno}"


def test_the_walk_finds_the_classes_and_the_places():
    assert {"StatemigrateError", "NoLocksError", "CutOffError", "ExportError"} <= error_classes()
    assert len(list(constructions())) > 400
    assert len(list(helpers())) > 70


def test_every_error_that_the_package_makes_has_a_code():
    without = []
    for place, first in (*constructions(), *helpers()):
        is_literal = isinstance(first, ast.Constant) and first.value in error_codes()
        if not is_literal and (first is None or ast.unparse(first) not in PASSED_ON):
            without.append(place)
    assert without == []


def test_every_code_in_the_package_is_registered():
    assert {code: place for code, place in literals() if code not in error_codes()} == {}


def test_every_registered_code_is_used():
    assert set(error_codes()) - {code for code, _ in literals()} == set()


def test_codes_keep_their_numbers_and_titles():
    # A person reviews each change of this list: a code never gets another meaning, and the number
    # of one that went is not used again.
    assert [f"{code}  {entry.title}" for code, entry in error_codes().items()] == (
        GOLDEN.read_text(encoding="utf-8").splitlines()
    )


def test_codes_of_a_topic_stand_together_in_order():
    codes = list(error_codes())
    assert all(CODE.fullmatch(code) for code in codes)
    topics = [entry.topic for entry in error_codes().values()]
    assert codes == sorted(codes, key=lambda code: (topics.index(code.split("-")[1]), code))


def test_an_entry_is_whole_sentences():
    for entry in error_codes().values():
        assert entry.title == entry.title.strip()
        assert not entry.title.endswith(".")
        for text in (entry.cause, entry.cure):
            assert text.endswith("."), entry.code
            assert text == " ".join(text.split()), entry.code
            assert text.count("`") % 2 == 0, entry.code


def test_commands_that_an_entry_names_exist():
    texts = [f"{entry.cause} {entry.cure}" for entry in error_codes().values()]
    named = {verb for text in texts for verb in re.findall(r"`statemigrate ([a-z-]+)", text)}
    assert {"rewrite", "doctor", "backfill"} <= named <= set(VERBS)


def page_maker():
    spec = importlib.util.spec_from_file_location("error_pages", ROOT / "scripts/error_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_docs_is_what_the_registry_gives():
    maker = page_maker()
    page = maker.PAGE.read_text(encoding="utf-8")
    assert page == maker.with_codes(page)
    of_spark = [each.code for each in errors_of_spark()]
    assert re.findall("^#### (.*)$", page, re.MULTILINE) == [*error_codes(), *of_spark]


ERROR = CheckpointError(
    "SM-CHECKPOINT-003", "nothing is committed", expected="a batch", found=None, path="p"
)


def test_the_text_of_an_error_has_its_code_in_the_first_line():
    assert str(ERROR).splitlines() == [
        "nothing is committed [SM-CHECKPOINT-003]",
        "  expected: a batch",
    ]
    assert ERROR.headline == "nothing is committed [SM-CHECKPOINT-003]"
    assert ERROR.summary == "nothing is committed"


def test_an_error_needs_a_code():
    with pytest.raises(TypeError, match="summary"):
        RewriteError("nothing is committed")


@pytest.mark.parametrize(
    "again",
    [
        pickle.loads(pickle.dumps(ERROR)),  # noqa: S301 - our own
        ERROR.but(summary="nothing is committed", found="none"),
        StatemigrateError.from_json(json.loads(json.dumps(ERROR.to_json()))),
    ],
    ids=["pickled", "but", "json"],
)
def test_a_code_goes_where_its_error_goes(again):
    assert (type(again), again.code) == (CheckpointError, "SM-CHECKPOINT-003")
    assert again.data == {"path": "p"}


def test_a_transform_error_keeps_its_code_when_its_key_is_known():
    assert TransformError("SM-TRANSFORM-007", "Store 'a': it raised").at(7).code == (
        "SM-TRANSFORM-007"
    )


def test_the_code_of_a_worker_s_error_is_in_the_text_that_spark_hands_over():
    def fails(batches):
        yield from batches
        raise ERROR

    with pytest.raises(RuntimeError) as raised:
        list(CarriesErrors(fails)([]))
    text = f"org.apache.spark.SparkException: {raised.value}"
    assert CODE.findall(text) == ["SM-CHECKPOINT-003"]
    with pytest.raises(CheckpointError) as again, reraising_worker_errors():
        raise RuntimeError(text)
    assert again.value.code == "SM-CHECKPOINT-003"


def test_commands_show_the_code_to_persons_and_to_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    text = runner.invoke(main, ["history", "--heads"]).stderr
    assert text.startswith(
        "Error: migrations is not a folder of migration scripts. [SM-SCRIPT-005]\n"
    )
    error = json.loads(runner.invoke(main, ["--json", "history", "--heads"]).stderr)["error"]
    assert (error["kind"], error["code"]) == ("ScriptError", "SM-SCRIPT-005")
    (script := tmp_path / "migrations" / "versions").mkdir(parents=True)
    (script.parent / "script.py.mako").touch()
    (script / "a1.py").write_text("nothing")
    (finding,) = json.loads(runner.invoke(main, ["--json", "check"]).stdout)
    assert finding["code"] == "SM-SCRIPT-009"
    (entry,) = json.loads(runner.invoke(main, ["--json", "history"]).stdout)
    assert [each["code"] for each in entry["faults"]] == ["SM-SCRIPT-009"]


def test_an_examination_that_failed_has_the_code():
    found = Examined.failed("rights", ERROR, step="put")
    assert found.found == "nothing is committed [SM-CHECKPOINT-003]"
    assert found.data == {"code": "SM-CHECKPOINT-003", "step": "put"}
