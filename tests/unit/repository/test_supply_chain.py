"""What the project installs, and what its example workflow may do."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

TOP = Path(__file__).parents[3]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
WORKFLOWS = {
    each.stem: yaml.safe_load(each.read_text()) for each in (TOP / "examples/ci").glob("*.yml")
}
WITHOUT_KNOWN_HOLES = {"pyarrow": "23.0.1", "mako": "1.3.12", "protobuf": "6.33.5"}


def constraints() -> dict[str, str]:
    lines = (TOP / "constraints.txt").read_text().splitlines()
    pairs = (line.partition("==") for line in lines if not line.startswith("#"))
    return {name.lower().replace("_", "-"): version for name, _, version in pairs}


def parsed(texts: list[str]) -> list[Requirement]:
    return [Requirement(text) for text in texts if not text.startswith("statemigrate")]


def extras() -> list[Requirement]:
    return parsed([each for extra in PROJECT["optional-dependencies"].values() for each in extra])


def requirements() -> list[Requirement]:
    return [*parsed(PROJECT["dependencies"]), *extras()]


def test_what_a_platform_has_is_not_replaced() -> None:
    """Its Spark, pandas and Arrow stay; a floor of Arrow is one that the tests were run with."""
    needed = {each.name: str(each.specifier) for each in parsed(PROJECT["dependencies"])}
    assert not needed.keys() & {"pyspark", "py4j", "pandas", "protobuf"}
    assert needed["pyarrow"] == ">=18"
    assert "<" not in "".join(needed.values())


def test_no_release_with_a_known_hole_is_installed() -> None:
    platforms_own = [each for each in parsed(PROJECT["dependencies"]) if each.name == "pyarrow"]
    for requirement in requirements():
        if requirement.name in WITHOUT_KNOWN_HOLES and requirement not in platforms_own:
            fixed = Version(WITHOUT_KNOWN_HOLES[requirement.name])
            (floor,) = [
                Version(each.version) for each in requirement.specifier if each.operator == ">="
            ]
            assert floor >= fixed, requirement


def test_every_dependency_has_one_version_that_the_tests_run_with() -> None:
    pinned = constraints()
    for requirement in requirements():
        version = pinned[requirement.name.lower()]
        assert version in requirement.specifier, requirement


def test_make_installs_these_versions_alone() -> None:
    recipe = (TOP / "Makefile").read_text().replace("\\\n", " ")
    installs = [
        line for line in recipe.splitlines() if "pip install" in line and "--editable" in line
    ]
    assert installs
    assert all("--constraint" in line for line in installs)
    assert "make test" in (TOP / ".ci/run").read_text()


@pytest.mark.parametrize("package", ["openjdk-17-jre-headless", "chromium"])
def test_installing_a_package_of_the_system_is_announced_and_can_be_declined(package: str) -> None:
    script = TOP / "scripts" / "may-install.sh"
    environment = {name: value for name, value in os.environ.items() if name != "NO_INSTALL"}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(script), package],
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    asked, declined = run(), run(NO_INSTALL="1")
    assert declined.returncode == 1
    if os.getuid() == 0 and Path("/etc/debian_version").exists():
        assert asked.returncode == 0
        assert f"{package} is missing; installing it on this system, as root" in asked.stderr
        assert "is not installed: NO_INSTALL is set" in declined.stderr
    else:
        assert asked.returncode == 1


def test_nothing_is_installed_on_the_system_without_asking() -> None:
    for path in [*(TOP / "scripts").glob("*.sh"), TOP / ".ci/run"]:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "apt-get update" in line:
                assert "may-install.sh" in lines[number - 1], path


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    ("name", "job"), [("state-migrations", "state"), ("preview", "preview")], ids=str
)
def test_an_example_workflow_has_the_least_rights(name: str, job: str) -> None:
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    used = [step for step in steps(workflow) if "uses" in step]
    checkouts = [step for step in used if step["uses"].startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    state = workflow["jobs"][job]
    assert state["env"]["STATEMIGRATE_NO_VALUES"] == "1"
    assert state["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    # Under this event strangers' code would run with the repository's secrets.
    assert workflow[True] == "pull_request"


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=list(WORKFLOWS))
def test_an_example_workflow_runs_pinned_code(workflow: dict[str, Any]) -> None:
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]), step
        if "pip install" in step.get("run", ""):
            assert re.search(r"statemigrate(\[spark\])?==\d", step["run"]), step
