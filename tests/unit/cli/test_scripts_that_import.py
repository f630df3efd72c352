"""Commands find the project's own modules in the current directory, as ``python -m`` does."""

import sys

from support.script_files import script


def test_a_script_may_import_a_module_of_the_current_directory(run, tmp_path, monkeypatch):
    package = tmp_path / "auction_shop"
    package.mkdir()
    (package / "__init__.py").write_text("FORMAT = 'b BIGINT'\n")
    script(
        tmp_path / "migrations",
        "aaaa11112222",
        more="from auction_shop import FORMAT",
        upgrade="return {'a': len(FORMAT)}",
    )
    before = sys.path[:]
    assert "aaaa11112222" in run("history", "auctions").stdout
    assert "in order" in run("check").stdout
    assert sys.path == before
    sys.modules.pop("auction_shop")
