"""Loads the Python file of a script, always from its present text.

A script that declares its change by lenses gets its functions here, as if they were written.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import invalidate_caches
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from statemigrate.errors import FormatError, ScriptError, StatemigrateError
from statemigrate.formats import Format
from statemigrate.lenses import Change, Lens, LensChain
from statemigrate.migration import OpenQuestion, imported_inside
from statemigrate.scripts.checksums import code_checksum

_DERIVED = ("upgrade", "downgrade", "upgrade_table")
_OF_KEYS = ("new_key", "rekey", "merge")


def declare(path: Path, source: str, module: ModuleType) -> None:
    """Give a script with a ``change`` what is derived from it.

    ``new`` is derived where it is not written. Of a script that changes keys, too, only the way up
    of a value is derived. Raises ScriptError with ``path`` and ``line``.
    """
    written = getattr(module, "change", None)
    if written is None:
        return
    line = _change_line(source)
    chain = _chain(path, line, written)
    old, new = getattr(module, "old", None), getattr(module, "new", None)
    _check_alone(path, line, module)
    if not isinstance(old, Format):
        raise _wrong(
            "SM-LENS-009",
            path,
            line,
            "`change` has no format that it changes.",
            expected='a format in `old`, as in old = Struct("name STRING")',
            found=f"old = {old!r:.80}",
            next_action="fill in `old`, or remove `change` where only a format is recorded",
        )
    try:
        change = Change.of(chain, old, new if isinstance(new, Format) else None)
    except (ScriptError, FormatError) as cause:
        raise cause.but(
            summary=f"{path}, line {line}: {cause.summary}", path=str(path), line=line
        ) from cause
    _assign(module, change)


def _assign(module: ModuleType, change: Change) -> None:
    has_keys = any(getattr(module, name, None) for name in _OF_KEYS)
    found = {
        "change": change,
        "new": change.new,
        "upgrade": change.upgrade,
        "downgrade": None if has_keys else change.downgrade,
        "upgrade_table": None if has_keys else change.upgrade_table,
        "drops": (*getattr(module, "drops", ()), *change.drops),
    }
    for name, value in found.items():
        setattr(module, name, value)


def _chain(path: Path, line: int | None, written: object) -> LensChain:
    if isinstance(written, LensChain):
        return written
    if isinstance(written, Lens):
        return LensChain((written,))
    raise _wrong(
        "SM-LENS-008",
        path,
        line,
        "`change` is not made of lenses.",
        expected='change = lens(rename("name", "title"), ...)',
        found=f"{type(written).__name__}: {written!r:.80}",
        next_action="correct `change`, or write `upgrade` and `downgrade` in its place",
    )


def _check_alone(path: Path, line: int | None, module: ModuleType) -> None:
    functions = [name for name in _DERIVED if getattr(module, name, None) is not None]
    if functions:
        raise _wrong(
            "SM-LENS-010",
            path,
            line,
            f"`change` gives `{functions[0]}`, and the script has one of its own.",
            expected="lenses or functions: `function` is a lens that calls one",
            found=f"`change` and `{'` and `'.join(functions)}`",
            next_action=f"remove `{functions[0]}`, or `change`",
        )


def _wrong(
    code: str,
    path: Path,
    line: int | None,
    problem: str,
    *,
    expected: str,
    found: str,
    next_action: str,
) -> ScriptError:
    return ScriptError(
        code,
        f"{path}, line {line}: {problem}",
        expected=expected,
        found=found,
        next_action=next_action,
        path=str(path),
        line=line,
    )


def _change_line(source: str) -> int | None:
    """Where the script assigns ``change``."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == "change" for each in targets):
            return node.lineno
    return None


# Modules next to the scripts, in the scripts' folder or in ``versions``.
#
# A script imports them by their plain names. They travel to the workers by value, as the scripts
# do: what is in no one's ``sys.modules`` is taken so by cloudpickle. For that, and so that two
# folders may each have a module of one name, they are there only while a script is loaded.


@contextmanager
def importable_siblings(versions: Path) -> Iterator[frozenset[str]]:
    """Let a script import the modules next to it; yields their names."""
    folders = [versions.parent.resolve(), versions.resolve()]
    names = _names(folders)
    added, kept = [str(each) for each in folders], sys.dont_write_bytecode
    hidden = _taken_out(names, folders, everyone=True)
    # The folder holds scripts only: nothing is written there.
    sys.path[:0], sys.dont_write_bytecode = added, True
    invalidate_caches()
    try:
        yield names
    finally:
        sys.dont_write_bytecode = kept
        # What a script has added for itself stays.
        for each in filter(sys.path.__contains__, added):
            sys.path.remove(each)
        _taken_out(names, folders, everyone=False)
        sys.modules.update(hidden)


def _names(folders: list[Path]) -> frozenset[str]:
    files = {at.stem for each in folders for at in each.glob("*.py")}
    packages = {at.parent.name for each in folders for at in each.glob("*/__init__.py")}
    return frozenset((files | packages) - set(sys.stdlib_module_names) - {"__init__", "__main__"})


def _taken_out(
    names: frozenset[str], folders: list[Path], *, everyone: bool
) -> dict[str, ModuleType]:
    """Take modules of these names out of ``sys.modules``: everyone's, or those of the folders."""
    chosen = {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in names and (everyone or _lies_in(module, folders))
    }
    for name in chosen:
        del sys.modules[name]
    return chosen


def _lies_in(module: ModuleType, folders: list[Path]) -> bool:
    file = getattr(module, "__file__", None)
    return file is None or any(Path(file).resolve().is_relative_to(each) for each in folders)


_CREATED = re.compile(r"^Create Date:\s*(.+?)\s*$", re.MULTILINE)
_QUESTION = "# QUESTION:"


@dataclass(frozen=True)
class Script:
    """A script's file and the module it makes; what the module says is not checked yet."""

    path: Path
    source: str
    module: ModuleType

    def get(self, name: str, default: object = None) -> Any:
        """Return what the script assigns to ``name``."""
        return getattr(self.module, name, default)

    @cached_property
    def message(self) -> str:
        """The first line of the docstring, without its full stop."""
        lines = (self.module.__doc__ or "").strip().splitlines()
        first = lines[0].strip() if lines else ""
        return first if first.endswith("..") else first.removesuffix(".")

    @cached_property
    def created(self) -> str:
        """The Create Date of the docstring, or nothing."""
        found = _CREATED.search(self.module.__doc__ or "")
        return found[1] if found else ""

    @cached_property
    def checksum(self) -> str:
        """SHA-256 in hex over what the code says: comments, formatting and docstrings left out."""
        return code_checksum(self.source)

    @cached_property
    def text_checksum(self) -> str:
        """What releases before recorded: SHA-256 in hex over the text.

        Line endings and trailing whitespace are left out.
        """
        lines = [line.rstrip() for line in self.source.split("\n")]
        return hashlib.sha256("\n".join(lines).rstrip("\n").encode()).hexdigest()

    def was_applied_as(self, recorded: str) -> bool:
        """Whether a checksum that was recorded when a script was applied is this one's."""
        own = self.replaces.get(self.get("revision"))
        return recorded in (self.checksum, self.text_checksum, own)

    @property
    def replaces(self) -> Mapping[str, str]:
        """The checksums of the scripts that were squashed into this one, by revision."""
        found = self.get("replaces", {})
        return found if isinstance(found, dict) else {}

    @cached_property
    def questions(self) -> tuple[OpenQuestion, ...]:
        """The comments that start with ``# QUESTION:``; text inside strings is none."""
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        return tuple(
            OpenQuestion(token.start[0], token.string.removeprefix(_QUESTION).strip())
            for token in tokens
            if token.type == tokenize.COMMENT and token.string.startswith(_QUESTION)
        )


class _UncachedLoader(SourceFileLoader):
    """Neither reads nor writes ``__pycache__``.

    Python trusts a cached file while the source's size and whole second of change stay the same,
    which an edit can leave as they were; and the user's folder holds scripts only.
    """

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError(f"no cache for {path}")


class _GivenLoader(_UncachedLoader):
    """Loads a text that is not in the file yet."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self._text = text

    def get_data(self, path: Any) -> bytes:
        return self._text if path == self.path else super().get_data(path)


def script_files(versions: Path) -> list[Path]:
    """Return the files of the folder that are scripts, by name.

    What begins with an underscore is a module that scripts import.
    """
    files = versions.glob("*.py")
    return sorted(path for path in files if not path.name.startswith((".", "_")))


def load(path: Path, text: bytes | None = None) -> Script:
    """Load one script; with ``text``, what is to be written there, in place of the file's.

    Raises ScriptError or FormatError, with ``path`` and ``line`` if known.
    """
    # The name is in no worker's sys.modules, so cloudpickle takes the functions by value.
    name = "migration_" + re.sub(r"\W", "_", path.stem)
    loader = (
        _UncachedLoader(name, str(path)) if text is None else _GivenLoader(name, str(path), text)
    )
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"  # noqa: S101
    module = module_from_spec(spec)
    try:
        source = decode_source(path.read_bytes() if text is None else text)
        with importable_siblings(path.parent) as siblings:
            loader.exec_module(module)
    except FormatError as cause:
        raise _malformed(path, cause) from cause
    except Exception as cause:
        raise _unimportable(path, cause) from cause
    _check_imports(path, module, siblings)
    declare(path, source, module)
    return Script(path, source, module)


def _check_imports(path: Path, module: ModuleType, siblings: frozenset[str]) -> None:
    functions = (each for each in vars(module).values() if isinstance(each, FunctionType))
    own = (each for each in functions if each.__module__ == module.__name__)
    for function in own:
        late = sorted(
            name for name in imported_inside(function) if name.partition(".")[0] in siblings
        )
        if late:
            raise ScriptError(
                "SM-SCRIPT-008",
                f"{path}: {function.__name__} imports {late[0]}, which is next to the scripts.",
                expected=f"`import {late[0]}` at the top of the script: what is next to scripts "
                "is there only while they are loaded, and travels with what they use of it",
                found=f"an import inside {function.__name__}",
                next_action="move the import to the top of the script",
                path=str(path),
            )


def _malformed(path: Path, cause: FormatError) -> FormatError:
    line = _line(path, cause)
    return cause.but(
        summary=f"{_file_and_line(path, line)}: {cause.summary}",
        next_action=cause.next_action or f"correct the schema in {path}",
        path=str(path),
        line=line,
    )


def _unimportable(path: Path, cause: Exception) -> ScriptError:
    reason = cause.summary if isinstance(cause, StatemigrateError) else cause
    line = _line(path, cause)
    return ScriptError(
        "SM-SCRIPT-009",
        f"{_file_and_line(path, line)}: the script does not import.",
        expected="a Python file",
        found=f"{type(cause).__name__}: {reason}",
        next_action="correct that line; `--debug` shows the traceback",
        path=str(path),
        line=line,
    )


def _file_and_line(path: Path, line: int | None) -> str:
    return str(path) if line is None else f"{path}, line {line}"


def _line(path: Path, cause: Exception) -> int | None:
    if isinstance(cause, SyntaxError) and cause.filename == str(path):
        return cause.lineno
    frames = traceback.extract_tb(cause.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return lines[-1] if lines else None
