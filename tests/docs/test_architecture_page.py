"""The page on the architecture says what the code is."""

import ast
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
SCRIPT = TOP / "scripts" / "describe_architecture.py"


def test_the_tables_are_what_the_script_writes():
    ran = subprocess.run([sys.executable, SCRIPT, "--check"], check=False)
    assert ran.returncode == 0, "run `python scripts/describe_architecture.py`"


def test_every_name_in_the_walks_is_in_the_module_beside_it():
    walks = " ".join(PAGE.partition("## The walk")[2].partition("<!--")[0].split())
    named = re.findall(r"`([A-Za-z_]+)` \(`([a-z_/]+\.py)`\)", walks)
    assert len(named) > 15
    for name, module in named:
        tree = ast.parse((TOP / "statemigrate" / module).read_text(encoding="utf-8"))
        kinds = ast.FunctionDef | ast.ClassDef
        assert name in {each.name for each in tree.body if isinstance(each, kinds)}, (name, module)


def test_every_module_of_the_walks_is_there():
    for module in re.findall(r"`([a-z_/]+\.py)`", PAGE.partition("<!--")[0]):
        assert (TOP / "statemigrate" / module).is_file(), module


def test_the_page_names_every_module():
    for path in (TOP / "statemigrate").rglob("*.py"):
        name = "/".join(path.relative_to(TOP / "statemigrate").with_suffix("").parts[1:])
        if path.name != "__init__.py" and name:
            assert f"`{name}`" in PAGE, path
