"""Which function keeps which columns of an aggregation, told by their names."""

from statemigrate.checkpoint.operators.described import meanings


def told(*columns):
    fields = [{"name": name, "type": kind} for name, kind in columns]
    found = meanings({"type": "struct", "fields": fields})
    return [(each.columns, each.functions.partition(":")[0]) for each in found]


def test_columns_are_those_of_functions_one_after_the_other():
    assert told(
        ("count", "long"),
        ("sum", "long"),
        ("max", "long"),
        ("sum", "double"),
        ("count", "long"),
        ("sum", "decimal(20,2)"),
        ("isEmpty", "boolean"),
        ("n", "double"),
        ("avg", "double"),
        ("m2", "double"),
        ("buf", "binary"),
    ) == [
        (("count",), "count"),
        (("sum",), "sum"),
        (("max",), "max"),
        (("sum_2", "count_2"), "avg"),
        (("sum_3", "isEmpty"), "sum of decimals"),
        (("n", "avg", "m2"), "stddev or variance"),
        (("buf",), "collect_list, collect_set, percentile, a sketch or an aggregator of your own"),
    ]


def test_the_registers_of_a_sketch_are_told_together():
    columns = [("min", "string"), *((f"MS[{n}]", "long") for n in range(52)), ("max", "long")]
    found = told(*columns)
    assert [len(names) for names, _ in found] == [1, 52, 1]
    assert found[1][1] == "approx_count_distinct"


def test_a_name_that_no_function_has_is_not_explained():
    assert told(("customer", "string"), ("count", "long")) == [(("count",), "count")]
