"""The folder of migration scripts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.resources import as_file, files
from itertools import groupby
from pathlib import Path

from statemigrate.configuration import names_scripts
from statemigrate.errors import LineageError, ScriptError
from statemigrate.formats import Format
from statemigrate.migration import Lineage, check_store_name
from statemigrate.quoting import argument
from statemigrate.scripts.choosing import Details, Entry, chosen, details, entries
from statemigrate.scripts.heads import read_heads, write_head, write_heads
from statemigrate.scripts.inference import Transforms, infer_transforms
from statemigrate.scripts.lens_inference import NotDeclarableError, declaration
from statemigrate.scripts.rekeying import KeyChange, infer_rekeying
from statemigrate.scripts.survey import Survey, survey

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
                "SM-SCRIPT-005",
                f"{self.directory} is not a folder of migration scripts.",
                expected=f"a folder with {_TEMPLATE} and versions/",
                found=f"no {_TEMPLATE}" if self.directory.is_dir() else "no such folder",
                next_action=f"`statemigrate --migrations {argument(self.directory)} init`, "
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
                "SM-SCRIPT-006",
                f"{target} is in use for something else.",
                expected="a new or empty folder",
                found="a file" if target.is_file() else "a folder that is not empty",
                next_action="choose another one with --migrations",
                path=str(target),
            )
        with as_file(files("statemigrate.scripts") / "template") as template:
            shutil.copytree(template, target, dirs_exist_ok=True)
        (target / "versions").mkdir()
        folder = cls(target)
        write_heads(target, folder.survey())
        return folder

    def survey(self) -> Survey:
        """Return everything that is in the folder, and what is wrong with it.

        Each script is executed for it, once: what needs scripts twice is given what this returns.
        """
        return survey(self.versions)

    def stores(self) -> tuple[str, ...]:
        """Return the names of the stores that have scripts, complete or not."""
        return tuple(self.survey().stores)

    def lineages(self) -> dict[str, Lineage]:
        """Return the lineage of every store, by name.

        Raises ScriptError, FormatError or LineageError for the first thing wrong in any script.
        """
        return self.survey().every()

    def lineage(self, store: str) -> Lineage:
        """Return the lineage of one store; what is wrong with other stores' scripts stays out.

        A script that names no store may be of this one, and is an error here too.
        """
        return self.sound_lineages(store)[store]

    def sound_lineages(self, *needed: str) -> dict[str, Lineage]:
        """Return the lineages of all stores in which nothing is wrong, read once.

        Raises, as `lineages` does, for what is wrong with the stores that are ``needed``, and
        LineageError for one of them without a script.
        """
        return self.survey().sound(*needed)

    def new(  # noqa: PLR0913 - all but two by name
        self,
        store: str,
        message: str,
        *,
        old: Format | None = None,
        new: Format | None = None,
        baseline: bool = False,
        infer: bool = False,
        lenses: bool | None = False,
        renames: Mapping[str, str] | None = None,
        new_key: Format | None = None,
        keys: KeyChange | None = None,
        notes: str = "",
        scripts: Survey | None = None,
    ) -> Path:
        """Write a script on the store's head, or its first one, and return its path.

        ``old`` is filled in from the head's ``new`` and otherwise left open, as ``new`` is. With
        ``baseline``, for a store without scripts, it only records ``new``. With ``infer`` the
        functions are written too, as far as the two formats tell what is in them; guesses are
        marked ``# QUESTION:``; with ``keys`` those that change keys are written. ``new_key`` is
        noted where it is given, in a baseline as the key that there is; ``notes`` go below the
        message. Otherwise the script is refused by everything that reads it until ``old``, ``new``
        and ``upgrade`` are written.

        Where ``lenses`` is None the script declares its change with lenses instead, if they say all
        that differs between two given formats; with True it has to. ``renames`` are the fields that
        get another name, by their paths.

        Raises LineageError if ``old`` is not the head's format or a baseline would not come first,
        and ScriptError for ``infer`` without two formats. ``scripts`` are those of the folder,
        where they were read already.
        """
        # Imports alembic, and with it SQLAlchemy, which takes longer than reading scripts.
        from statemigrate.scripts.new_script_text import write_script

        found = scripts or self.survey()
        found.require(check_store_name(store))
        # A script is written only if its line can be.
        read_heads(self.directory)
        lineage = found.lineages.get(store)
        own = [script for script in found.scripts if script.get("store") == store]
        if lineage is not None:
            old = _continued(lineage, old, baseline)
        transforms = None
        if lenses is not False and not baseline and new is not None and old is not None:
            transforms = _declared(store, old, new, renames, needed=lenses is True)
        if transforms is None and infer:
            transforms = _inferred(store, old, new, keys)
        path = write_script(
            self.directory,
            own,
            store,
            message,
            old=old,
            new=new or old,
            baseline=baseline,
            transforms=transforms,
            new_key=keys.new if keys else new_key,
            notes=notes,
        )
        write_head(self.directory, store, found.placing(path))
        return path

    def heads(self) -> tuple[Entry, ...]:
        """Return the newest script of every store: several where they form no chain.

        Where each follows another, all of them.
        """
        stores = groupby(self.history(), lambda entry: entry.store)
        groups = [list(group) for _, group in stores]
        newest = [[each for each in group if each.is_head] or group for group in groups]
        return tuple(entry for group in newest for entry in group)

    def history(self, store: str | None = None) -> tuple[Entry, ...]:
        """Return the scripts of one store, or store by store of all, newest first.

        Scripts that are broken, or not finished, are among them, with what is wrong; last come
        those that name no store. Raises LineageError for a store without scripts.
        """
        found = self.survey()
        if store is not None and store not in found.stores:
            raise found.unscripted(store)
        chosen_stores = [*found.stores, None] if store is None else [store]
        return tuple(entry for each in chosen_stores for entry in entries(found, each))

    def show(self, target: str) -> Details:
        """Return one script with its formats compared, and what is wrong with it.

        ``target`` is a revision or the beginning of one, a store, or ``STORE@`` followed by what
        `Lineage.resolve` knows; of scripts that form no chain, by ``head`` or a revision. Raises
        LineageError if it means no script, or several.
        """
        found = self.survey()
        return details(found, chosen(found, target))


def survey_of(migrations: str | Path | None) -> Survey | None:
    """All scripts of a folder; None where there is none to read.

    That is for None, and where nothing was named and the default folder is not there: a query
    without migrations has no scripts.
    """
    if migrations is None or not names_scripts(migrations):
        return None
    return ScriptFolder(migrations).survey()


def lineages_if_any(migrations: str | Path) -> dict[str, Lineage]:
    """The lineages in a folder, by store; empty where there is no folder yet.

    Code is tried before its first script is written. Raises as `ScriptFolder.lineages`.
    """
    return ScriptFolder(migrations).lineages() if Path(migrations).is_dir() else {}


def _inferred(
    store: str, old: Format | None, new: Format | None, keys: KeyChange | None
) -> Transforms:
    if old is not None and new is not None and keys is not None:
        return infer_rekeying(old, new, keys)
    if old is not None and new is not None:
        return infer_transforms(old, new)
    missing = "new" if old else "old"
    raise ScriptError(
        "SM-SCRIPT-007",
        f"There is no `{missing}` format to infer functions for.",
        expected="a format before and one after",
        found=f"no `{missing}`",
        next_action=f"give both formats, or write a baseline for store '{store}' first",
        store=store,
    )


def _declared(
    store: str, old: Format, new: Format, renames: Mapping[str, str] | None, *, needed: bool
) -> Transforms | None:
    try:
        found = declaration(old, new, renames)
    except NotDeclarableError as cause:
        if not (needed or renames):
            return None
        raise ScriptError(
            "SM-SCRIPT-036",
            f"Store '{store}': lenses do not say how the formats differ: {cause}.",
            expected="a difference that lenses say: fields that come, go, move or get a wider "
            "type, and with --rename other names",
            found=f"{old!r} and {new!r}",
            next_action="name what is renamed with --rename OLD=NEW, or write functions with "
            "--functions",
            store=store,
        ) from cause
    return Transforms(found.source, found.imports, found.names)


def _continued(lineage: Lineage, old: Format | None, baseline: bool) -> Format:
    before = lineage.format_of(lineage.head)
    if baseline or (old is not None and old.fingerprint != before.fingerprint):
        raise LineageError(
            "SM-LINEAGE-027",
            f"Store '{lineage.store}' already has the revision {lineage.head}.",
            expected=f"a script on top of it, with `old` {before!r}",
            found="a baseline" if baseline else repr(old),
            next_action="leave out the baseline" if baseline else "leave out the old format",
            store=lineage.store,
        )
    return before
