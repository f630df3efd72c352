import pytest
from linting import ruff

from statemigrate.formats import Avro, Struct

LONG = Struct(
    "seller BIGINT NOT NULL, item STRUCT<name: STRING, category: STRING>, "
    "price STRUCT<bids: BIGINT, total: DECIMAL(18,2), highest: DECIMAL(18,2)>, "
    "tags ARRAY<STRING>, notes MAP<STRING, STRUCT<text: STRING, at: TIMESTAMP>>"
)
AVRO = Avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
SHORT = Struct("a BIGINT")


CASES = {
    "open": {},
    "short": {"old": SHORT, "new": SHORT},
    "long": {"old": SHORT, "new": LONG},
    "avro": {"old": AVRO, "new": LONG},
    "inferred": {"old": LONG, "new": SHORT, "infer": True},
    "inferred with imports": {"old": SHORT, "new": LONG, "infer": True},
    "baseline": {"new": LONG, "baseline": True},
    "open baseline": {"baseline": True},
}


@pytest.mark.parametrize("formats", CASES.values(), ids=CASES)
def test_a_generated_script_passes_this_repositorys_linter_and_formatter(folder, formats):
    path = folder.new("auctions", "split item and price", **formats)
    assert ruff(path, "check") == ""
    assert ruff(path, "format", "--diff") == ""


@pytest.mark.parametrize(
    "message",
    [
        "a",
        "Ends with a stop.",
        'says "quoted"',
        'three """ quotes',
        "a back\\slash \\n",
        "over\nmany\n lines",
        "word " * 60,
        "${x} % if <%def>",
        "größer 值",
        "!!!",
        "../../etc/passwd",
    ],
)
def test_any_message_makes_a_script_in_the_folder(folder, message):
    path = folder.new("auctions", message, new=SHORT, baseline=True)
    assert path.parent == folder.versions
    (migration,) = folder.lineage("auctions").migrations
    assert (
        migration.message[:40] == " ".join(message.split()).rstrip(".").replace('"""', "'''")[:40]
    )


def test_a_first_script_reads_well(folder):
    path = folder.new("auctions", "Split item", old=SHORT, new=LONG)
    text = path.read_text()
    revision = path.name.split("_")[0]
    header = f"Revision ID: {revision}\nRevises: base\nCreate Date: "
    assert text.startswith(f'"""Split item.\n\n{header}')
    assert 'old = Struct("a BIGINT")\n' in text
    assert "from statemigrate.formats import Struct, Value\n" in text


def test_a_users_own_template_is_used(folder):
    template = folder.directory / "script.py.mako"
    template.write_text(template.read_text() + "\n\nMARK = 'mine'\n")
    assert "MARK = 'mine'" in folder.new("auctions", "one").read_text()
