"""Follows the pages of docs/ as a reader does: writes files, runs commands, compares.

A fenced block with a title is a file. A title with a ``*`` names a generated script, whose
change the block replaces; one below ``examples/`` is a part of that file of the repository.
Python without a title is a part of a file that was written, or of an example. In ``console``
blocks, lines that follow a command are what it prints: ``...`` stands for anything, a revision for
any other. An ``sh`` block is about files of the reader's own: it is checked, and not run.

A page whose front matter says ``start: embedded.md#deploy`` goes on from where that page's reader
is when they come to that heading; without ``#``, at its end.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"
CHANGED = re.compile(r"^(?:change = |def upgrade)", re.MULTILINE)
FENCE = re.compile(r'^```([\w+-]+)(?: title="([^"\n]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
START = re.compile(r"\A---\n(?:.*\n)*?start: (\S+)\n(?:.*\n)*?---\n")
REVISION = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])")
DAY_OF_A_SCRIPT = re.compile(r"(?<=(?:\\ ){3})\d{4}\\-\d\d\\-\d\d(?=(?:\\ ){3})")
"""In a pattern, the day in the column of `statemigrate history`."""
PROGRAMS = {
    "python": [sys.executable],
    "statemigrate": [sys.executable, "-m", "statemigrate"],
}


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    title: str
    text: str


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(DOCS).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def start(self) -> str | None:
        found = START.match(self.text)
        return found and found[1]

    @property
    def blocks(self) -> list[Block]:
        return [Block(*parts) for parts in FENCE.findall(self.text)]

    def steps(self) -> list[str | Block]:
        """The anchors of the headings, and the blocks, in their order."""
        found = [*HEADING.finditer(FENCE.sub(_blank, self.text)), *FENCE.finditer(self.text)]
        return [
            Block(each[1], each[2] or "", each[3]) if each.re is FENCE else anchor(each[1])
            for each in sorted(found, key=lambda each: each.start())
        ]


def all_pages() -> list[Page]:
    return [Page(path) for path in sorted(DOCS.rglob("*.md"))]


def anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


@dataclass
class Reader:
    """Follows pages in one folder, whose path stays the same: checkpoints name their input.

    Not ``activated``, another ``python3`` may come first on the reader's path: that is a trap which
    plain PySpark does not avoid.
    """

    folder: Path
    saved: Path
    activated: bool = False

    def follow(self, page: Page) -> list[str]:
        """Do what a page says, block by block; what each console block printed."""
        self._begin(page)
        printed = []
        for step in page.steps():
            if isinstance(step, str):
                self._save(f"{page.name}#{step}")
            else:
                printed += self._do(step)
        self._save(page.name)
        return printed

    def _begin(self, page: Page) -> None:
        if page.start is not None and not self._place(page.start).is_dir():
            self.follow(Page(DOCS / page.start.partition("#")[0]))
        shutil.rmtree(self.folder, ignore_errors=True)
        if page.start is None:
            self.folder.mkdir(parents=True)
        else:
            shutil.copytree(self._place(page.start), self.folder)

    def _save(self, moment: str) -> None:
        if any(each.start == moment for each in all_pages()):
            shutil.rmtree(self._place(moment), ignore_errors=True)
            shutil.copytree(self.folder, self._place(moment))

    def _place(self, moment: str) -> Path:
        return self.saved / moment.replace("/", "-")

    def _do(self, block: Block) -> list[str]:
        if block.language == "console":
            return [run_all(block.text, self.folder, environment(self.activated))]
        if block.language == "python":
            self._python(block)
        return []

    def _python(self, block: Block) -> None:
        if block.title.startswith("examples/"):
            assert block.text in (TOP / block.title).read_text(), block.title
        elif "*" in block.title:
            (script,) = self.folder.glob(block.title)
            text = script.read_text()
            script.write_text(CHANGED.split(text, maxsplit=1)[0] + block.text)
        elif block.title:
            (self.folder / block.title).write_text(block.text)
        else:
            assert self._is_known(block.text), f"no file that is run has:\n{block.text}"

    def _is_known(self, fragment: str) -> bool:
        titled = (block.text for page in all_pages() for block in page.blocks if block.title)
        files = [*self.folder.rglob("*.py"), *(TOP / "examples").rglob("*.py")]
        return any(fragment in text for text in [*titled, *(file.read_text() for file in files)])


def run_all(text: str, folder: Path, variables: dict[str, str]) -> str:
    """Run the commands of a block and compare what they print with what the block shows."""
    everything, code = "", 0
    commands = list(_commands(text))
    for number, (command, shown) in enumerate(commands):
        if command == "echo $?":
            printed = f"{code}\n"
        else:
            may_fail = commands[number + 1 :][:1] == [("echo $?", "1\n")]
            printed, code = _run(command, folder, variables, may_fail=may_fail)
        if shown:
            compare(command, shown, printed)
        everything += printed
    return everything


def _commands(text: str) -> list[tuple[str, str]]:
    joined = text.replace("\\\n", " ")
    parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)
    assert not parts[0], f"a block begins with a command, not with {parts[0]!r}"
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts[1:])]


def _run(
    command: str, folder: Path, variables: dict[str, str], *, may_fail: bool
) -> tuple[str, int]:
    program, *arguments = shlex.split(command, comments=True)
    done = subprocess.run(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = f"$ {command}\n{done.stdout}\n{done.stderr[-4000:]}"
    assert (done.returncode == 1) if may_fail else (done.returncode == 0), told
    return done.stdout, done.returncode


def environment(activated: bool) -> dict[str, str]:
    """A reader's: without what other tests of the same process set for their workers."""
    own = {"PYSPARK_PYTHON", "PYTHONPATH"}
    found = {name: value for name, value in os.environ.items() if name not in own}
    if activated:
        found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found.get("PATH", "")])
    return found


def compare(command: str, shown: str, printed: str) -> None:
    found = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    assert re.fullmatch(_pattern(shown), found), f"$ {command}\n{found}\nbut the page has\n{shown}"


def _pattern(shown: str) -> str:
    pattern = r"(?:.*\n)*?".join(map(re.escape, re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)))
    pattern = pattern.replace(r"\.\.\.", ".*")
    return DAY_OF_A_SCRIPT.sub(r"\\d{4}-\\d\\d-\\d\\d", REVISION.sub("[0-9a-f]{12}", pattern))
