"""Names of a struct's fields that tell each of them."""

from statemigrate.checkpoint.operators.shapes import labelled, labels


def struct(*fields):
    return {"type": "struct", "fields": [{"name": n, "type": t} for n, t in fields]}


def test_fields_of_one_name_are_numbered_and_no_label_is_given_twice():
    names = ("count", "sum", "sum", "sum_2", "sum")
    found = labels(struct(*((name, "long") for name in names)))
    assert found == ("count", "sum", "sum_3", "sum_2", "sum_4")


def test_what_holds_nothing_is_not_shown():
    shown = labelled(struct(("__dummy__", "void"), ("n", "long"), ("n", "double")))
    assert shown == struct(("n", "long"), ("n_2", "double"))
