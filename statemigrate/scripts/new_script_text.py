"""Writes a new script from the folder's template, through alembic."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from alembic import __version__ as alembic_version
from alembic.config import Config
from alembic.script import Script as AlembicScript
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionMap
from alembic.util import rev_id
from mako.template import Template

from statemigrate.configuration import configured
from statemigrate.errors import ScriptError
from statemigrate.formats import Format
from statemigrate.scripts.generated_script import (
    PLACEHOLDER,
    WINDOW_AROUND,
    Formats,
    prove_formats,
    prove_functions,
    prove_script,
)
from statemigrate.scripts.inference import Transforms
from statemigrate.scripts.loading import Script
from statemigrate.scripts.source import assignment, imported_names, in_docstring


def write_script(  # noqa: PLR0913 - all but four by name
    directory: Path,
    scripts: Sequence[Script],
    store: str,
    message: str,
    *,
    old: Format | None,
    new: Format | None,
    baseline: bool,
    transforms: Transforms | None = None,
    new_key: Format | None = None,
    notes: str = "",
) -> Path:
    """Write a script on top of ``scripts``, the store's other ones, and return its path.

    A format that is None is left open in the script, and so are the functions. Raises ScriptError
    if the template fails, or leaves out the ``transforms`` that it is given.
    """
    summary, details = _docstring(message)
    formats = {**({} if baseline else {"old": old}), "new": new}
    if new_key:
        formats["new_key"] = new_key
    if transforms:
        _check_complete(directory, transforms)
        prove_functions(transforms.source, transforms.lenses)
    revision = rev_id()
    known: dict[str, Any] = {
        "details": "\n\n".join(filter(None, (details, in_docstring(notes)))),
        "store": store,
        "baseline": baseline,
        "imports": _imported(formats, transforms, functions=not baseline),
    }
    assigned = {name: assignment(name, format) for name, format in formats.items()}
    parts: dict[str, Any] = {
        "old": assigned.get("old", ""),
        "new": "\n".join(text for name, text in assigned.items() if name != "old"),
        "transforms": transforms.source if transforms else "",
        "library_imports": transforms.imports if transforms else "",
    }
    try:
        with _no_bytecode(), _output_aside():
            written = _alembic(directory, scripts, store, formats).generate_revision(
                revision,
                summary,
                head=f"{store}@head" if scripts else "base",
                branch_labels=None if scripts else [store],
                **known,
                **parts,
            )
    except ScriptError:
        _remove(directory / "versions", revision)
        raise
    except Exception as cause:
        _remove(directory / "versions", revision)
        raise _not_written(directory, cause) from cause
    assert written is not None, "alembic names the file after the revision"  # noqa: S101
    path = directory / "versions" / Path(written.path).name
    # Once more: the team's tools have been at it.
    prove_formats(path.read_bytes(), formats)
    return path


def _imported(formats: Formats, transforms: Transforms | None, *, functions: bool) -> str:
    """What follows `from statemigrate.formats import`: names, and a line for those of lenses."""
    lenses = transforms.lenses if transforms else ()
    names = imported_names(formats.values(), functions=functions and not lenses)
    more = [f"from statemigrate.lenses import {', '.join(lenses)}"] if lenses else []
    if transforms and f"{WINDOW_AROUND}(" in transforms.source:
        more.append(f"from statemigrate.windows import {WINDOW_AROUND}")
    return "\n".join([", ".join(names), *more])


_PARTS = ("old", "new", "transforms", "library_imports")
"""What of a template's data is Python; the rest is text within literals and comments."""
_WRITES = "_generate_template"
"""The method of alembic that renders the template into a file."""
_STORE = "%%(store)s"
"""What stands for the store in a template of file names."""
_NAMES = f"%%(rev)s_{_STORE}_%%(slug)s"
"""How scripts are called where the project does not say."""


def _named(template: str | None, store: str) -> str:
    """The template of file names for one store, whose characters are those of file names."""
    return (template or _NAMES).replace(_STORE, re.sub(r"[^\w-]+", "_", store))


def _generate(
    write: Callable[..., None], formats: Formats, src: Path, dest: Path, **data: Any
) -> None:
    """What alembic does to write a script, and the proof of it before anything else sees it."""
    write(src, dest, **data)
    parts = {name: data[name] for name in _PARTS}
    plain = {name: part and PLACEHOLDER for name, part in parts.items()}
    details = {"details": data["details"] and "Details."}
    template = Template(filename=str(src))  # noqa: S702  # Python, which is proven below
    text = template.render_unicode(**{**data, **details, **plain})
    prove_script(Path(dest).read_bytes(), text, formats, parts.values())


def _alembic(
    directory: Path, scripts: Sequence[Script], store: str, formats: Formats
) -> ScriptDirectory:
    # An absolute path, because alembic takes a colon in any other for a package's resource.
    versions = directory.absolute() / "versions"
    versions.mkdir(exist_ok=True)
    settings = configured().of_alembic()
    config = Config()
    # The words of alembic's own table in pyproject.toml, where it fills in what follows a percent.
    config.toml_alembic_config = {
        **settings,
        "file_template": _named(settings.get("file_template"), store),
        "script_location": str(directory.absolute()).replace("%", "%%"),
        "version_locations": [str(versions).replace("%", "%%")],
    }
    alembic = ScriptDirectory.from_config(config)
    # Alembic has no public name for this step, between which and its import nothing else comes.
    write = getattr(alembic, _WRITES, None)
    if write is None:
        raise _unknown_alembic()
    setattr(alembic, _WRITES, partial(_generate, write, formats))
    alembic.messaging_opts = {"quiet": True}
    # Scripts that alembic alone would not get past: broken ones of this store are reported first.
    alembic.revision_map = RevisionMap(
        lambda: [AlembicScript(s.module, s.get("revision"), s.path) for s in scripts]
    )
    return alembic


def _remove(versions: Path, revision: str) -> None:
    """Remove the script of a revision, which alembic writes before it looks at it."""
    for path in versions.glob("*.py"):
        if revision in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()


def _docstring(message: str) -> tuple[str, str]:
    # One line ends with a full stop, as linters want it; what is too long for it goes below.
    text = in_docstring(" ".join(message.split()).rstrip("."))
    if not text:
        raise ScriptError(
            "SM-SCRIPT-029",
            "A migration needs a message.",
            expected="a line that says what changes",
            found=repr(message),
            next_action="give one with -m",
        )
    if len(text) <= 90:
        return f"{text}.", ""
    return textwrap.shorten(text, 90, placeholder=" ..."), textwrap.fill(f"{text}.", 96)


def _check_complete(directory: Path, transforms: Transforms) -> None:
    # A template that was edited, or made by an older version, may not know of these parts.
    template = directory / "script.py.mako"
    text = template.read_text(encoding="utf-8")
    parts = {"${transforms}": transforms.source, "${library_imports}": transforms.imports}
    missing = [name for name, part in parts.items() if part and name not in text]
    if not missing:
        return
    raise ScriptError(
        "SM-SCRIPT-030",
        "No script was written: the template leaves out the generated functions.",
        expected=f"{' and '.join(parts)} in {template}: the functions, and the imports they need",
        found=f"no {' and no '.join(missing)}",
        next_action=f"add them to {template}; `statemigrate init` makes a template with both in a "
        "new folder",
        path=str(template),
    )


@contextmanager
def _no_bytecode() -> Iterator[None]:
    # alembic imports what it has just written, and would leave a __pycache__ next to it.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


@contextmanager
def _output_aside() -> Iterator[None]:
    # What a team's formatter says is no part of a command's own output, which may be JSON.
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _unknown_alembic() -> ScriptError:
    return ScriptError(
        "SM-SCRIPT-031",
        "No script was written: this alembic is not known.",
        expected="an alembic in which the text of a script can be proven before it is imported",
        found=f"alembic {alembic_version}",
        next_action="install the newest statemigrate, or an older alembic such as 1.16",
    )


def _not_written(directory: Path, cause: Exception) -> ScriptError:
    template = directory / "script.py.mako"
    return ScriptError(
        "SM-SCRIPT-032",
        "No script could be written.",
        expected=f"a template in {template} that makes a script",
        found=f"{type(cause).__name__}: {cause}",
        next_action=f"correct {template}, or file_template and post_write_hooks in "
        "[tool.statemigrate] of pyproject.toml; `statemigrate init` makes a fresh one in a new "
        "folder",
        path=str(template),
    )
