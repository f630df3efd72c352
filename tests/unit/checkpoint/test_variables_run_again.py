"""The variables of code that ran a killed batch again, from metadata and schema files."""

import json

import pytest

from statemigrate.checkpoint.operators import (
    FamilySchema,
    NoPrefix,
    PrefixScan,
    known_variables,
    read_operator_entry,
    read_schema_files,
    written_v3,
)
from statemigrate.checkpoint.operators.described import read_operator
from statemigrate.errors import CheckpointError
from statemigrate.files import open_files

N = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
FOLDER = "state/0/_stateSchema/default"


def family(name, user_key=None):
    encoder = NoPrefix() if user_key is None else PrefixScan(1)
    return FamilySchema(name, N, N, encoder, user_key)


def write_schemas(root, name, *families):
    path = root / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written_v3(families))


def write_metadata(root, batch, variables, schemas):
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 2,
        "stateSchemaFilePaths": [f"file:{root}/{FOLDER}/{each}" for each in schemas],
    }
    listed = [
        {"stateName": each, "stateVariableType": "ValueState", "ttlEnabled": False}
        for each in variables
    ]
    document = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": json.dumps({"timeMode": "NoTime", "stateVariables": listed}),
    }
    path = root / f"state/0/_metadata/v2/{batch}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"v2\n{json.dumps(document)}")


def variables(root, batch, *, as_listed=False):
    entry, _ = read_operator_entry(open_files(root), 0, batch, {}, as_listed=as_listed)
    listed = json.loads(entry.properties)["stateVariables"]
    return {each["stateName"]: (each["stateVariableType"], each["ttlEnabled"]) for each in listed}


@pytest.fixture
def again(tmp_path):
    """A run that began with batch 3, which other code ran again."""
    write_metadata(tmp_path, 0, ["a"], ["0_x"])
    write_schemas(tmp_path, "0_x", family("a"))
    write_metadata(tmp_path, 3, ["a", "b"], ["0_x", "3_y"])
    write_schemas(tmp_path, "3_y", family("a"), family("b"))
    lists = [family(each) for each in ("list", "$rowCounter_list", "lives", "$count_lives")]
    more = [family("$ttl_lives"), family("$min_lives"), family("$procTimers_keyToTimestamp")]
    write_schemas(tmp_path, "3_z", family("a"), *lists, *more, family("map", N), family("c"))
    return tmp_path


VALUE = ("ValueState", False)


def test_the_kind_of_each_is_what_its_schemas_say(again):
    assert variables(again, 5) == {
        "a": VALUE,
        "b": VALUE,
        "list": ("ListState", False),
        "lives": ("ListState", True),
        "map": ("MapState", False),
        "c": VALUE,
    }
    shape = read_operator(open_files(again), 0, 5, {})
    (store,) = shape.stores
    lists = {each.name: each.is_list for each in store.families if not each.name.startswith("$")}
    assert lists == {
        "a": False,
        "b": False,
        "list": True,
        "lives": True,
        "map": False,
        "c": False,
    }
    assert "$ttl_lives" in {each.name for each in store.families}


def test_spark_knows_those_alone_that_the_metadata_name(again):
    assert variables(again, 5, as_listed=True) == {"a": VALUE, "b": VALUE}


def test_batches_before_and_runs_after_do_not_have_them(again):
    assert variables(again, 2) == {"a": VALUE}
    write_metadata(again, 6, ["a", "c"], ["0_x", "3_y", "6_w"])
    write_schemas(again, "6_w", family("a"), family("c"))
    assert variables(again, 6) == {"a": VALUE, "c": VALUE}
    assert set(variables(again, 5)) == {"a", "b", "c", "list", "lives", "map"}


def test_what_a_later_rerun_declared_counts_from_its_batch(again):
    write_metadata(again, 6, ["a"], ["0_x", "3_y", "6_w"])
    write_schemas(again, "6_w", family("a"))
    write_schemas(again, "6_v", family("d"))
    write_schemas(again, "8_u", family("e"))
    assert set(variables(again, 7)) == {"a", "d"}
    assert set(variables(again, 8)) == {"a", "d", "e"}


def test_the_schema_of_a_listed_variable_is_that_of_the_metadata(again):
    other = FamilySchema("a", N, {**N, "fields": []}, NoPrefix())
    write_schemas(again, "3_v", other)
    files = open_files(again)
    entry, _ = read_operator_entry(files, 0, 5, {})
    schemas = read_schema_files(files, entry, entry.stores[0])
    assert [each.value for each in schemas[-1] if each.name == "a"] == [N]
    assert [len(each) for each in schemas] == [1, 2 + 9]


def test_a_schema_file_that_spark_did_not_write_is_an_error(again):
    (again / FOLDER / "3_v").write_bytes(b"nothing")
    with pytest.raises(CheckpointError) as caught:
        read_operator_entry(open_files(again), 0, 5, {})
    assert caught.value.code == "SM-CHECKPOINT-013"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"stateStoreInfo": []}, "SM-CHECKPOINT-010"),
        ({"operatorPropertiesJson": "[]"}, "SM-CHECKPOINT-012"),
        ({"operatorPropertiesJson": "{"}, "SM-CHECKPOINT-012"),
    ],
)
def test_metadata_that_were_altered_are_an_error(again, change, code):
    alter(again, change)
    with pytest.raises(CheckpointError) as caught:
        read_operator_entry(open_files(again), 0, 5, {})
    assert caught.value.code == code


def test_what_is_no_variable_is_none_that_is_known(again):
    alter(again, {"operatorPropertiesJson": '{"stateVariables": [1, {}, {"stateName": []}]}'})
    entry, _ = read_operator_entry(open_files(again), 0, 5, {})
    more = json.loads(entry.properties)["stateVariables"][3:]
    assert {each["stateName"] for each in more} == {"a", "list", "lives", "map", "c"}
    alter(again, {"operatorPropertiesJson": '{"stateVariables": 1}'})
    entry, _ = read_operator_entry(open_files(again), 0, 5, {})
    assert entry.properties == '{"stateVariables": 1}'


def alter(root, change):
    path = root / "state/0/_metadata/v2/3"
    document = json.loads(path.read_text().partition("\n")[2])
    path.write_text(f"v2\n{json.dumps(document | change)}")


def test_not_all_variables_are_known_where_a_batch_was_run_again(tmp_path, again):
    assert known_variables(open_files(again)) is None
    (again / FOLDER / "3_z").unlink()
    assert known_variables(open_files(again)) == {"a", "b"}
