"""What Spark's own metadata tells of state variables, from files written by hand."""

import json

import pytest
from support.offset_logs import put

from statemigrate.checkpoint.operators import FamilySchema, NoPrefix, written_v3
from statemigrate.errors import CheckpointError
from statemigrate.files import LocalFiles
from statemigrate.native.listing import Listing, begun_schemas, check_listed, read_listing


def metadata(root, batch, variables, schemas=(), *, operator=0, name="transformWithStateExec"):
    properties = {"stateVariables": [{"stateName": each} for each in variables]}
    folder = f"state/{operator}/_stateSchema/default"
    stores = [{"stateSchemaFilePaths": [f"file:/gone/{folder}/{each}" for each in schemas]}]
    document = {
        "operatorInfo": {"operatorId": operator, "operatorName": name},
        "stateStoreInfo": stores,
        "operatorPropertiesJson": json.dumps(properties),
    }
    put(root / f"state/{operator}/_metadata/v2/{batch}", f"v2\n{json.dumps(document)}")


def schema(root, file, *variables):
    struct = {"type": "struct", "fields": []}
    families = [FamilySchema(each, struct, struct, NoPrefix()) for each in variables]
    path = root / "state/0/_stateSchema/default" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written_v3(families))


def test_no_state_has_no_variables(tmp_path):
    assert read_listing(str(tmp_path), 0) == Listing()


def test_the_run_that_a_batch_is_of_says_what_is_listed(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 3, ["a", "a@1"], ["0_x", "3_y"])
    metadata(tmp_path, 7, ["a@1"], ["0_x", "3_y"])
    schema(tmp_path, "0_x", "a")
    schema(tmp_path, "3_y", "a", "a@1")
    assert read_listing(str(tmp_path), 6).variables == {"a", "a@1"}
    listing = read_listing(str(tmp_path), 9)
    assert listing.variables == {"a@1"}
    assert not listing.may_have("a")
    assert listing.dropped_since(-1) == {"a": 6}
    assert listing.dropped_since(0) == {"a": 6}
    assert listing.dropped_since(3) == {}


def test_a_schema_file_that_no_metadata_names_tells_of_a_batch_that_ran_twice(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 2, ["a"], ["0_x"])
    schema(tmp_path, "0_x", "a")
    schema(tmp_path, "2_z", "a", "a@12")
    listing = read_listing(str(tmp_path), 2)
    assert listing.variables == {"a"}
    assert listing.may_have("a@12")
    assert not listing.may_have("a@1")
    assert not listing.may_have("a@123")


def test_a_name_that_java_writes_in_its_own_utf8_is_found(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    schema(tmp_path, "0_y", "a", "größe@1", "🙂@1")
    listing = read_listing(str(tmp_path), 0)
    assert listing.may_have("größe@1")
    assert listing.may_have("🙂@1")
    assert not listing.may_have("🙂")


def test_a_schema_file_that_is_damaged_is_a_named_error(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    schema(tmp_path, "0_y", "a", "a@12")
    path = tmp_path / "state/0/_stateSchema/default/0_y"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError) as raised:
        read_listing(str(tmp_path), 0)
    assert raised.value.code == "SM-CHECKPOINT-013"


def test_a_running_query_may_remove_metadata_meanwhile(tmp_path):
    metadata(tmp_path, 0, ["a", "b"], ["0_x"])
    metadata(tmp_path, 3, ["a"], ["0_x"])

    class Purged(LocalFiles):
        def get(self, path, **options):
            if path.endswith("_metadata/v2/0"):
                raise FileNotFoundError(path)
            return super().get(path, **options)

    listing = read_listing(Purged(tmp_path), 3)
    assert listing.variables == {"a"}
    assert not listing.before


def test_what_a_batch_that_ran_twice_made_is_missed_once_other_code_ran_on(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 2, ["a"], ["0_x"])
    schema(tmp_path, "0_x", "a")
    schema(tmp_path, "2_z", "a", "a@12")
    metadata(tmp_path, 3, ["a"], ["0_x"])
    listing = read_listing(str(tmp_path), 3)
    assert not listing.may_have("a@12")
    assert listing.dropped_since(1, ["a", "a@12", "a@34"]) == {"a@12": 2}
    assert listing.dropped_since(2, ["a", "a@12", "a@34"]) == {}
    # The next run lists it, or makes it again: nothing is missed.
    schema(tmp_path, "3_y", "a", "a@12")
    assert read_listing(str(tmp_path), 3).dropped_since(1, ["a@12"]) == {}
    metadata(tmp_path, 4, ["a", "a@12"], ["0_x", "4_y"])
    assert read_listing(str(tmp_path), 4).dropped_since(1, ["a@12"]) == {}


def test_what_the_code_that_ran_a_batch_again_did_not_declare_was_passed_over(tmp_path):
    metadata(tmp_path, 0, ["a", "a@12"], ["0_x"])
    metadata(tmp_path, 5, ["a", "a@12"], ["0_x"])
    schema(tmp_path, "0_x", "a", "a@12")
    schema(tmp_path, "5_plain", "a")
    schema(tmp_path, "6_killed", "a")
    # Another operator's files say nothing of these variables.
    metadata(tmp_path, 5, ["b"], ["5_b"], operator=1)
    listing = read_listing(str(tmp_path), 5)
    assert listing.passed_over(range(0, 6)) == {"a@12": 5}
    assert listing.passed_over(range(0, 6), {"5_plain"}) == {}
    assert listing.passed_over(range(6, 6)) == {}
    assert begun_schemas(str(tmp_path), 5) == {"6_killed"}
    assert begun_schemas(str(tmp_path), 4) == {"5_plain", "6_killed"}
    metadata(tmp_path, 7, ["a", "a@12"], ["0_x"])
    assert read_listing(str(tmp_path), 7).passed_over(range(5, 8)) == {"a@12": 5}


def test_a_family_that_was_not_there_before_the_batch_was_not_passed_over(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 3, ["a", "a@12"], ["0_x", "3_y"])
    schema(tmp_path, "3_plain", "a")
    listing = read_listing(str(tmp_path), 4)
    assert listing.passed_over(range(0, 5)) == {}
    assert [listing.had(batch, "a@12") for batch in (-1, 2, 3)] == [False, False, True]
    schema(tmp_path, "0_z", "a@12")
    assert read_listing(str(tmp_path), 4).passed_over(range(1, 5)) == {"a@12": 3}


def test_what_spark_keeps_no_word_of_may_have_been_there(tmp_path):
    metadata(tmp_path, 3, ["a", "a@12"], ["3_y"])
    schema(tmp_path, "3_plain", "a")
    assert read_listing(str(tmp_path), 4).passed_over(range(0, 5)) == {"a@12": 3}


def test_of_several_operators_all_that_ran_twice_is_known(tmp_path):
    for number in (0, 1):
        metadata(tmp_path, 0, ["a"], operator=number)
        metadata(tmp_path, 2, ["a"], operator=number)
    schema(tmp_path, "0_z", "a@12")
    listing = read_listing(str(tmp_path), 2)
    assert listing.dropped_since(-1, ["a@12"]) == {"a@12": 1}


def test_what_a_run_left_that_later_metadata_knows_of_is_no_rerun(tmp_path):
    schema(tmp_path, "1_old", "a@9")
    metadata(tmp_path, 2, ["a"], ["0_x"])
    assert not read_listing(str(tmp_path), 2).may_have("a@9")


def test_a_plan_that_was_never_committed_is_no_listing(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 1, ["a", "a@1"], ["0_x", "1_y"])
    schema(tmp_path, "1_y", "a", "a@1")
    listing = read_listing(str(tmp_path), 0)
    assert listing.variables == {"a"}
    assert listing.may_have("a@1")


def test_operators_of_other_kinds_are_passed_over(tmp_path):
    metadata(tmp_path, 0, ["x"], operator=1, name="dedupe")
    metadata(tmp_path, 0, ["a"])
    assert read_listing(str(tmp_path), 0).variables == {"a"}


@pytest.mark.parametrize(
    "text", ["", "v3\n{}", "v2\n", "v2\n[]", "v2\n{}", 'v2\n{"operatorInfo":1}']
)
def test_metadata_of_another_form_is_a_named_error(tmp_path, text):
    put(tmp_path / "state/0/_metadata/v2/0", text)
    with pytest.raises(CheckpointError) as raised:
        read_listing(str(tmp_path), 0)
    assert raised.value.code == "SM-CHECKPOINT-012"
    assert raised.value.data["path"] == "state/0/_metadata/v2/0"


def test_a_variable_that_may_be_full_and_is_not_listed_is_never_read_as_empty(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    schema(tmp_path, "0_x", "a")
    schema(tmp_path, "0_y", "a", "a@12")
    check_listed(str(tmp_path), 0, "a@34")
    with pytest.raises(CheckpointError, match=r"family a@12 in .* cannot be backfilled yet"):
        check_listed(str(tmp_path), 0, "a@12")


def test_the_schema_file_of_a_batch_that_was_not_committed_tells_of_nothing_in_the_state(tmp_path):
    metadata(tmp_path, 0, ["a"], ["0_x"])
    metadata(tmp_path, 6, ["a", "a@12"], ["6_y"])
    schema(tmp_path, "0_x", "a")
    schema(tmp_path, "6_y", "a", "a@12")
    check_listed(str(tmp_path), 5, "a@12")
