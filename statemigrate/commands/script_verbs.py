"""`history`, `new` and `check`: one function each, for all that is done with scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from statemigrate.commands.arguments import require_alone, required
from statemigrate.errors import StatemigrateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from statemigrate.commands.current import Log, LogOf
    from statemigrate.commands.fleet import Named
    from statemigrate.commands.lens_edit import LensEdit
    from statemigrate.commands.lock import Locked
    from statemigrate.commands.new_code import NewCode
    from statemigrate.commands.new_script import NewScript
    from statemigrate.commands.rebase import Rebase
    from statemigrate.commands.squash import Squash
    from statemigrate.formats import Format
    from statemigrate.inspect import CheckReport
    from statemigrate.native import Spark
    from statemigrate.scripts import Details, Entry


__all__ = ["check", "history", "new"]


@overload
def history(
    store: str, *, checkpoint: str | Path | None = ..., migrations: str | Path = ...
) -> tuple[Entry, ...]: ...


@overload
def history(*, heads: bool = ..., migrations: str | Path = ...) -> tuple[Entry, ...]: ...


@overload
def history(*, show: str, migrations: str | Path = ...) -> Details: ...


@overload
def history(
    *, checkpoint: str | Path, limit: int | None = ..., spark: SparkSession | None = ...
) -> Log: ...


@overload
def history(
    *, checkpoints: Named, limit: int | None = ..., spark: SparkSession | None = ...
) -> tuple[LogOf, ...]: ...


def history(
    store: str | None = None,
    *,
    checkpoint: str | Path | None = None,
    checkpoints: Named | None = None,
    limit: int | None = None,
    heads: bool = False,
    show: str | None = None,
    migrations: str | Path = "migrations",
    spark: SparkSession | None = None,
) -> tuple[Entry, ...] | Details | Log | tuple[LogOf, ...]:
    """The scripts of one store, or of every store in turn, newest first; or what was done.

    The list includes broken and unfinished scripts, with their problems, and ends with scripts that
    name no store. With a ``store`` and a ``checkpoint`` each entry shows whether the script was
    ``applied`` to it. With ``heads`` the list has only the newest script of every store: several if
    they form no chain, and all of them if each follows another.

    With ``show`` the result is one script, with a comparison of its formats, and its problems. It
    is an id or the beginning of one, a store for its head, or ``STORE@`` followed by an id,
    ``head``, ``head-1``, ``base+1`` or ``-1``.

    With a ``checkpoint`` alone the result is its log, newest first, with at most ``limit`` events.
    The query may be running. A start is ``done`` when a batch of it is committed. If a document is
    damaged, its events are missing, and the error names it. ``spark`` reaches a remote checkpoint.
    With ``checkpoints``, paths by name, the result has the logs of all of them, with ``limit``
    events each.

    Raises `LineageError` for a store without scripts, or if ``show`` means no script, or several;
    `ScriptError` if ``migrations`` is not a folder of scripts; `CheckpointError` if ``checkpoint``
    is not the checkpoint of a query.
    """
    from statemigrate.commands import scripts

    modes: dict[str, Any] = {"checkpoints": checkpoints, "heads": heads or None, "show": show}
    for mode in [name for name, given in modes.items() if given is not None]:
        others = {name: given for name, given in modes.items() if name != mode}
        require_alone("history", mode, store=store, checkpoint=checkpoint, **others)
    if heads:
        return scripts.heads(migrations=migrations)
    if show is not None:
        return scripts.show(show, migrations=migrations)
    if checkpoints is not None:
        from statemigrate.commands.current import log_of_all
        from statemigrate.commands.fleet import named_checkpoints

        return log_of_all(named_checkpoints(checkpoints), limit=limit, spark=spark)
    if checkpoint is not None and store is None:
        from statemigrate.commands.current import log

        return log(checkpoint, limit=limit, spark=spark)
    return scripts.history(store, migrations=migrations, checkpoint=checkpoint)


@overload
def new(
    store: str,
    message: str,
    *,
    old: Format | None = ...,
    new: Format | None = ...,
    baseline: bool = ...,
    lens: bool | None = ...,
    rename: Mapping[str, str] | None = ...,
    migrations: str | Path = ...,
) -> NewScript: ...


@overload
def new(
    store: str | None = ...,
    message: str | None = ...,
    *,
    autogenerate: str,
    lens: bool | None = ...,
    rename: Mapping[str, str] | None = ...,
    migrations: str | Path = ...,
) -> tuple[NewScript, ...]: ...


@overload
def new(
    store: str | None = ...,
    message: str | None = ...,
    *,
    from_checkpoint: str | Path,
    like: str | Path | None = ...,
    target: NewCode | None = ...,
    lens: bool | None = ...,
    rename: Mapping[str, str] | None = ...,
    migrations: str | Path = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> tuple[NewScript, ...]: ...


@overload
def new(
    store: str,
    message: str,
    *,
    from_checkpoint: str | Path,
    new: Format,
    lens: bool | None = ...,
    rename: Mapping[str, str] | None = ...,
    migrations: str | Path = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> tuple[NewScript, ...]: ...


@overload
def new(
    store: str,
    *,
    rebase: Literal[True],
    onto: str | None = ...,
    apply: bool = ...,
    from_checkpoint: str | Path | None = ...,
    migrations: str | Path = ...,
) -> Rebase: ...


@overload
def new(*, edit: str, editor: str | None = ..., migrations: str | Path = ...) -> Details: ...


@overload
def new(
    store: str,
    *,
    squash: str,
    apply: bool = ...,
    checkpoints: Named = ...,
    accept_unknown: Sequence[str] = ...,
    migrations: str | Path = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Squash: ...


@overload
def new(
    *,
    edit: str,
    lens: Literal[True],
    from_checkpoint: str | Path | None = ...,
    apply: bool = ...,
    migrations: str | Path = ...,
    operator: int | str | None = ...,
    stores: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> LensEdit: ...


def new(  # noqa: PLR0911, PLR0913 - all but two by name, a return for each way
    store: str | None = None,
    message: str | None = None,
    *,
    old: Format | None = None,
    new: Format | None = None,
    baseline: bool = False,
    autogenerate: str | None = None,
    from_checkpoint: str | Path | None = None,
    like: str | Path | None = None,
    target: NewCode | None = None,
    rebase: bool = False,
    onto: str | None = None,
    apply: bool = False,
    edit: str | None = None,
    editor: str | None = None,
    squash: str | None = None,
    checkpoints: Named = (),
    accept_unknown: Sequence[str] = (),
    lens: bool | None = None,
    rename: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
    operator: int | str | None = None,
    stores: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> NewScript | tuple[NewScript, ...] | Rebase | Details | LensEdit | Squash:
    """Write a script after the store's newest one, or its first.

    ``old`` is the newest script's ``new``; ``new`` and ``upgrade`` are left for you to fill in
    unless text. With ``baseline``, for a store without scripts, the script only records ``new``,
    the current format of the state. The same happens if only ``new`` is text and there is no
    script to take ``old`` from; the result says so.

    If lenses say all that differs between two formats, the script declares its change with them.
    ``lens`` set to False writes functions, or leaves them to you; set to True it raises
    `ScriptError` where lenses do not say it. ``rename`` has the fields that get another name or
    place, as in ``{"name": "item.title"}``: a rename is never guessed.

    With ``autogenerate``, a processor as ``MODULE:OBJECT``, this writes a script for each store
    whose declared schema differs from its newest script's format, or for ``store`` alone; see
    `statemigrate.autogenerate`. With ``from_checkpoint`` it records the current format of each
    store without a script, or of ``store``, as `statemigrate.baseline` does. With ``new`` too, it
    writes the script that changes ``store``, after that record and after the folder if there is
    none. With ``like``, a
    checkpoint that the new code made, the scripts migrate the state to that of ``like``, as
    `statemigrate.autogenerate_like` does. With ``target``, the new code itself, they also compute
    its keys from the old ones, as `statemigrate.autogenerate_for` does. All of these return a tuple
    of the written scripts.

    With ``rebase`` it puts one of a store's two branches on top of the other's head, as after a
    merge in git. ``onto`` is the head of the branch that stays. By default that is the branch that
    was applied, according to ``applied.json`` or ``from_checkpoint``, or else the one with the
    older first script. The scripts of the other branch follow it, and their `down_revision`, `old`
    and `new` are rewritten with the fields of both branches. If only one branch has a field, or if
    both have changed it, the script gets a ``# QUESTION:``. Without ``apply`` nothing is written.

    With ``edit``, a revision as in `history`, it opens that script in an editor, and returns its
    content and problems after the editor has closed. ``editor`` is a command with its arguments.
    The default is ``VISUAL``, else ``EDITOR``, else the first common editor that is installed. With
    ``lens`` too, it puts lenses in the place of the script's functions, if they make the same of
    values made up from the formats and of those in ``from_checkpoint``. The result has what
    differs. Without ``apply`` nothing is written.

    With ``squash``, a revision, it makes one script of the store's scripts up to that one. It has
    the lenses of all if all have lenses, and else calls their functions. The others are copied to
    ``squashed/``. None of ``checkpoints``, paths by name, may have values of a revision that would
    be gone. ``accept_unknown`` names those that need not be read, and ``"unknown"`` stands for all
    where none is given. Without ``apply`` nothing is written.

    Raises `LineageError` if ``old`` is not the newest format or a baseline would not come first,
    and `ScriptError` if ``migrations`` is not a folder of scripts.
    """
    if edit is not None:
        require_alone("new", "edit", store=store, message=message, rebase=rebase or None)
        if lens:
            from statemigrate.commands.lens_edit import declare_lenses

            return declare_lenses(
                edit,
                checkpoint=from_checkpoint,
                apply=apply,
                migrations=migrations,
                operator=operator,
                stores=stores,
                spark=spark,
            )
        from statemigrate.commands.scripts import edit as edited

        return edited(edit, migrations=migrations, editor=editor)
    if squash is not None:
        from statemigrate.commands.squash import squash as squashed

        return squashed(
            required("new", store, "a store"),
            squash,
            apply=apply,
            checkpoints=checkpoints,
            accept_unknown=accept_unknown,
            migrations=migrations,
            stores=stores,
            spark=spark,
        )
    if rebase:
        from statemigrate.commands.rebase import rebase as rebased

        return rebased(
            required("new", store, "a store"),
            onto=onto,
            apply=apply,
            migrations=migrations,
            checkpoint=from_checkpoint,
        )
    formats = {"old": old, "new": new, "baseline": baseline or None}
    if (like is not None or target is not None) and from_checkpoint is None:
        given = "like" if target is None else "target"
        raise StatemigrateError(
            "SM-CLI-002",
            f"new is given {given} without the state that changes",
            expected="from_checkpoint, the state that there is",
            found=f"{given} alone",
            next_action="add from_checkpoint",
        )
    if from_checkpoint is not None:
        require_alone(
            "new",
            "from_checkpoint",
            autogenerate=autogenerate,
            old=old,
            baseline=baseline or None,
            **({} if like is None and target is None else {"new": new}),
        )
        shared: dict[str, Any] = {"store": store, "migrations": migrations, "stores": stores}
        if target is not None:
            require_alone("new", "target", like=like)
            from statemigrate.commands.script_for_code import autogenerate_for

            wanted = required("new", message, "a message")
            return autogenerate_for(
                from_checkpoint, target, wanted, lens=lens, rename=rename, spark=spark, **shared
            )
        if like is not None:
            wanted = required("new", message, "a message")
            from statemigrate.commands.new_script import autogenerate_like

            return autogenerate_like(
                from_checkpoint, like, wanted, lens=lens, rename=rename, **shared
            )
        if new is not None:
            from statemigrate.commands.new_script import change

            return change(
                from_checkpoint,
                required("new", store, "a store"),
                required("new", message, "a message"),
                new,
                lens=lens,
                rename=rename,
                migrations=migrations,
                operator=operator,
                stores=stores,
                spark=spark,
            )
        from statemigrate.commands.new_script import MESSAGE
        from statemigrate.commands.new_script import baseline as record_formats

        return record_formats(
            from_checkpoint, message or MESSAGE, operator=operator, spark=spark, **shared
        )
    text = required("new", message, "a message")
    if autogenerate is not None:
        require_alone("new", "autogenerate", **formats)
        from statemigrate.commands.new_script import autogenerate as autogenerated

        return autogenerated(
            autogenerate, text, store=store, lens=lens, rename=rename, migrations=migrations
        )
    named = required("new", store, "a store")
    from statemigrate.commands.new_script import new as new_script

    return new_script(
        named,
        text,
        old=old,
        new=new,
        baseline=baseline,
        lens=lens,
        rename=rename,
        migrations=migrations,
    )


@overload
def check(
    *,
    code: Iterable[str] = ...,
    checkpoint: str | Path | None = ...,
    record: bool = ...,
    write_heads: bool = ...,
    made_up: bool = ...,
    migrations: str | Path = ...,
    targets: Mapping[str, str] | None = ...,
) -> CheckReport: ...


@overload
def check(
    *,
    code: str,
    lock: str | Path | None = ...,
    write_lock: str | Path | None = ...,
    record_meaning: bool = ...,
    checkpoint: str | Path | None = ...,
    inputs: Mapping[str, Any] | None = ...,
    mode: str | None = ...,
    rules: Mapping[str, str] | None = ...,
    spark: Spark = ...,
) -> Locked: ...


def check(  # noqa: PLR0913 - all by name
    *,
    code: Iterable[str] | str = (),
    checkpoint: str | Path | None = None,
    record: bool = False,
    write_heads: bool = False,
    made_up: bool = True,
    lock: str | Path | None = None,
    write_lock: str | Path | None = None,
    record_meaning: bool = False,
    inputs: Mapping[str, Any] | None = None,
    mode: str | None = None,
    rules: Mapping[str, str] | None = None,
    migrations: str | Path = "migrations",
    targets: Mapping[str, str] | None = None,
    spark: Spark = None,
) -> CheckReport | Locked:
    """Check all migration scripts, and the code that needs them, and report every problem.

    Each script must be complete and the scripts of a store must form one chain. Its examples must
    migrate, and no question may be open. Applied scripts, as in ``applied.json`` and in
    ``checkpoint``, must be unchanged. ``code`` names processors and functions, ``MODULE:OBJECT``,
    whose schemas must be those of their targets. The target of a store is the one passed to
    `migrated`, else the one in ``targets``, else the head. With ``made_up``, each script is also
    tried on values made up from its formats.

    With ``record`` this first writes the scripts that were applied to ``checkpoint`` to
    ``applied.json``, for checks without the checkpoint. With ``write_heads`` it first writes
    ``heads.txt``, which has the newest script of each store. It needs neither state nor Java.

    With ``lock``, a lock file, it checks no scripts and compares the meaning of the state of
    ``code`` with that file: one function of a query, ``MODULE:FUNCTION``, which runs once on empty
    streams. ``inputs`` and ``mode`` are as in `NewCode`, and ``rules`` are the project's levels by
    rule. With ``write_lock`` it writes that file. The same code gives the same text. With
    ``record_meaning`` it writes the record into ``checkpoint``, for state that no guarded start has
    run on: name the code that wrote the state.

    Raises `ScriptError` if ``migrations`` is not a folder of scripts, `CheckpointError` if
    ``checkpoint`` is not a checkpoint, and `CodeError` for code that does not run or is not the
    checkpoint's, and for a file that is not a lock file.
    """
    modes: dict[str, Any] = {
        "lock": lock,
        "write_lock": write_lock,
        "record_meaning": record_meaning or None,
    }
    chosen = [name for name, given in modes.items() if given is not None]
    if not chosen:
        from statemigrate.commands.check import check as check_scripts

        return check_scripts(
            code=(code,) if isinstance(code, str) else code,
            checkpoint=checkpoint,
            record=record,
            write_heads=write_heads,
            made_up=made_up,
            migrations=migrations,
            targets=targets,
        )
    for name in chosen:
        others = {other: modes[other] for other in modes if other != name}
        require_alone(
            "check", name, record=record or None, write_heads=write_heads or None, **others
        )
    names = [code] if isinstance(code, str) else [*code]
    from statemigrate.commands.lock import LOCK
    from statemigrate.commands.lock import lock as lock_meaning

    return lock_meaning(
        required("check", names[0] if len(names) == 1 else None, "the code of one query"),
        file=lock or write_lock or LOCK,
        inputs=inputs,
        mode=mode,
        check=lock is not None,
        checkpoint=required("check", checkpoint) if record_meaning else None,
        rules=rules,
        spark=spark,
    )
