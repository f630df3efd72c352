"""The folder of migration scripts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Format
from statemigrate.migration import BASE, Lineage, check_store_name
from statemigrate.scripts.grouping import by_store
from statemigrate.scripts.inference import Transforms, infer_transforms
from statemigrate.scripts.listing import Details, Entry, details, entries
from statemigrate.scripts.loading import Script, load_scripts
from statemigrate.scripts.reading import read

_TEMPLATE = "script.py.mako"


class ScriptFolder:
    """A folder with ``script.py.mako`` and the scripts in ``versions/``, one branch a store.

    Nothing is kept between calls: each reads the scripts as they are then.
    """

    def __init__(self, directory: str | Path) -> None:
        """Open a folder that `create` made. Raises ScriptError if it is not one."""
        self.directory = Path(directory)
        self.versions = self.directory / "versions"
        if not (self.directory / _TEMPLATE).is_file():
            raise ScriptError(
                f"{self.directory} is not a folder of migration scripts.",
                expected=f"a folder with {_TEMPLATE} and versions/",
                found=f"no {_TEMPLATE}" if self.directory.is_dir() else "no such folder",
                next_action=f"`statemigrate --migrations {self.directory} init`, "
                "or name the right folder with --migrations",
                path=str(self.directory),
            )

    @classmethod
    def create(cls, directory: str | Path) -> ScriptFolder:
        """Make the folder, or open it if it is one already.

        Raises ScriptError if something else is in it.
        """
        target = Path(directory)
        if (target / _TEMPLATE).is_file():
            return cls(target)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ScriptError(
                f"{target} is in use for something else.",
                expected="a new or empty folder",
                found="a file" if target.is_file() else "a folder that is not empty",
                next_action="choose another one with --migrations",
                path=str(target),
            )
        with as_file(files("statemigrate.scripts") / "template") as template:
            shutil.copytree(template, target, dirs_exist_ok=True)
        (target / "versions").mkdir()
        return cls(target)

    def stores(self) -> tuple[str, ...]:
        """Return the names of the stores that have scripts."""
        return tuple(self._by_store())

    def lineages(self) -> dict[str, Lineage]:
        """Return the lineage of every store, by name.

        Raises ScriptError, FormatError or LineageError for the first thing wrong in any script.
        """
        return {store: _build(store, scripts) for store, scripts in self._by_store().items()}

    def lineage(self, store: str) -> Lineage:
        """Return the lineage of one store; errors of other stores' formats and chains stay out."""
        stores = self._by_store()
        if store not in stores:
            raise LineageError(
                f"No migration script in {self.versions} is for store '{store}'.",
                expected=f"one of {', '.join(stores)}" if stores else "at least one script",
                found=repr(store),
                next_action=f"`statemigrate new {store} -m MESSAGE`",
                store=store,
            )
        return _build(store, stores[store])

    def new(
        self,
        store: str,
        message: str,
        *,
        old: Format | None = None,
        new: Format | None = None,
        baseline: bool = False,
        infer: bool = False,
    ) -> Path:
        """Write a script on the store's head, or its first one, and return its path.

        ``old`` is filled in from the head's ``new`` and otherwise left open, as ``new`` is. With
        ``baseline``, for a store without scripts, it only records ``new``. With ``infer`` the
        functions are written too, as far as the two formats tell what is in them; guesses are
        marked ``# QUESTION:``. Otherwise the script is refused by everything that reads it until
        ``old``, ``new`` and ``upgrade`` are written. Raises LineageError if ``old`` is not the
        head's format or a baseline would not come first, and ScriptError for ``infer`` without
        two formats.
        """
        # Imports alembic, and with it SQLAlchemy, which takes longer than reading scripts.
        from statemigrate.scripts.writing import write_script

        scripts = self._by_store().get(check_store_name(store), [])
        lineage = _build(store, scripts) if scripts else None
        if lineage is not None:
            old = _continued(lineage, old, baseline)
        transforms = _inferred(store, old, new) if infer else None
        return write_script(
            self.directory,
            scripts,
            store,
            message,
            old=old,
            new=new or old,
            baseline=baseline,
            transforms=transforms,
        )

    def heads(self) -> tuple[Entry, ...]:
        """Return the newest script of every store."""
        return tuple(entries(lineage)[0] for lineage in self.lineages().values())

    def history(self, store: str | None = None) -> tuple[Entry, ...]:
        """Return the scripts of one store, or store by store of all, newest first."""
        chosen = self.lineages().values() if store is None else [self.lineage(store)]
        return tuple(entry for lineage in chosen for entry in entries(lineage))

    def show(self, target: str) -> Details:
        """Return one script with its formats compared.

        ``target`` is a revision or the beginning of one, a store, or ``STORE@`` followed by what
        `Lineage.resolve` knows. Raises LineageError if it means no script, or several.
        """
        lineage = self._lineage_of(target)
        revision = lineage.resolve("head" if target == lineage.store else target)
        if revision == BASE:
            raise LineageError(
                f"No script made {target}: it is the state before the first one.",
                expected=f"one of {', '.join(m.revision for m in lineage.migrations)}",
                found=target,
                next_action=f"`statemigrate show {lineage.store}@base+1` shows the first script",
                store=lineage.store,
            )
        return details(lineage, revision)

    def _lineage_of(self, target: str) -> Lineage:
        store, separator, _ = target.partition("@")
        lineages = self.lineages()
        if separator or target in lineages:
            return self.lineage(store)
        if len(lineages) == 1:
            return next(iter(lineages.values()))
        holders = [lineage for lineage in lineages.values() if _holds(lineage, target)]
        if len(holders) == 1:
            return holders[0]
        raise LineageError(
            f"{target!r} means scripts of {len(holders)} stores."
            if holders
            else f"No script has the revision {target!r}.",
            expected="a revision, the beginning of one, STORE or STORE@REVISION",
            found=", ".join(lineage.store for lineage in holders) or repr(target),
            next_action="`statemigrate history` lists all revisions",
            revision=target,
        )

    def _by_store(self) -> dict[str, list[Script]]:
        return by_store(load_scripts(self.versions))


def _build(store: str, scripts: Sequence[Script]) -> Lineage:
    return Lineage.build(store, [read(script) for script in scripts])


def _inferred(store: str, old: Format | None, new: Format | None) -> Transforms:
    if old is not None and new is not None:
        return infer_transforms(old, new)
    missing = "new" if old else "old"
    raise ScriptError(
        f"There is no `{missing}` format to infer functions for.",
        expected="a format before and one after",
        found=f"no `{missing}`",
        next_action=f"give both formats, or write a baseline for store '{store}' first",
        store=store,
    )


def _holds(lineage: Lineage, target: str) -> bool:
    return any(migration.revision.startswith(target) for migration in lineage.migrations)


def _continued(lineage: Lineage, old: Format | None, baseline: bool) -> Format:
    before = lineage.format_of(lineage.head)
    if baseline or (old is not None and old.fingerprint != before.fingerprint):
        raise LineageError(
            f"Store '{lineage.store}' already has the revision {lineage.head}.",
            expected=f"a script on top of it, with `old` {before!r}",
            found="a baseline" if baseline else repr(old),
            next_action="leave out the baseline" if baseline else "leave out the old format",
            store=lineage.store,
        )
    return before
