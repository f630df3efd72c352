"""Wrap each payment with a name and a timestamp.

Revision ID: 9c5693d9c47b
Revises: base
Create Date: 2026-11-21 08:37:56
"""

from datetime import UTC, datetime

from statemigrate.formats import Avro, Value

# Identify the script; `statemigrate new` keeps them right.
revision = "9c5693d9c47b"
down_revision = None
branch_labels = ("guarded",)
store = "guarded"

# A script keeps its own copy of a schema: payment.avsc will change, what was stored by then not.
PAYER = {
    "type": "record",
    "name": "Payer",
    "fields": [{"name": "name", "type": "string"}, {"name": "iban", "type": "string"}],
}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "payer", "type": PAYER},
        {"name": "cents", "type": "long"},
        {"name": "made_at", "type": [MOMENT, "null"]},
    ],
}
GUARDED = {
    "type": "record",
    "name": "Guarded",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "object", "type": PAYMENT},
        {"name": "timestamp", "type": MOMENT},
    ],
}
old = Avro(PAYMENT)
new = Avro(GUARDED)

# Fixed, not the time of the migration: a batch that is run again must write the same.
UNKNOWN = datetime(2020, 1, 1, tzinfo=UTC)


def upgrade(value: Value) -> Value:
    name = f"payment {value['id']}"
    return {"name": name, "object": value, "timestamp": value["made_at"] or UNKNOWN}


def downgrade(value: Value) -> Value:
    payment: Value = value["object"]
    return payment


_payer = {"name": "Ada", "iban": "DE02120300000000202051"}
_payment = {"id": "a1", "payer": _payer, "cents": 250, "made_at": None}
examples = [
    (_payment, {"name": "payment a1", "object": _payment, "timestamp": UNKNOWN}),
    _payment | {"made_at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC)},
]
