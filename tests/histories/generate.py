"""Histories by seed: mostly what careful people do, and now and then what people do."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from random import Random
from typing import Any

from corners import EXOTIC, EXOTIC_USER_KEYS, KEYS, NAN, USER_KEYS, VALUES, user_keys_of, values_of
from formats import LAST, STORES
from history import History, Life

_MOST_KEYS = 8
_STRIDE = 1_000_003
_ODD = 0.3
"""How often a life has something that may be refused."""


def history(seed: int, *, lives: int | None = None, processes: bool = False) -> History:
    """The history of a seed; with ``processes`` Spark's own process may be killed in it."""
    made = _Generator(Random(seed), processes).history(lives)
    return _with_shares(made, Random(f"shares of {seed}")) if processes else made


def keys_for(made: History) -> list[int]:
    """The numbers of the keys that Spark itself keeps whole.

    It calls a processor once a row for a key that equals nothing: NaN, in pandas null as well.
    """
    cases = list(enumerate(KEYS[made.key][1]))
    sound = [at for at, key in cases if NAN not in key and (not made.in_pandas or _in_pandas(key))]
    return sound[:_MOST_KEYS]


def _in_pandas(key: tuple[Any, ...]) -> bool:
    """Whether a frame of pandas can have it: no null, and nanoseconds of a moment in 64 bits."""
    return not any(
        part is None or (isinstance(part, datetime) and not 1678 < part.year < 2262) for part in key
    )


def native_history(seed: int) -> History:
    """A history of Spark's own state, in three of ten of which somebody goes back to plain code."""
    return _with_way_back(history(seed, processes=True), Random(f"ways back of {seed}"))


def _with_way_back(made: History, random: Random) -> History:
    """With the lives of a way back somewhere: older code, and plain code, in this or that order."""
    if random.random() > 0.3:
        return made
    at = random.randrange(1, len(made.lives))
    keys, scripts = keys_for(made), made.lives[at - 1].scripts
    for _ in range(random.randint(2, 4)):
        feed = [[[key, [["look"]]] for key in random.sample(keys, min(2, len(keys)))]]
        life = Life(dict.fromkeys(scripts, 0), dict(scripts), feed, backfill=random.random() < 0.7)
        life.before = [["rollback", random.random() < 0.7] for _ in range(random.randint(1, 2))]
        life.before += [["undo"]] if random.random() < 0.3 else []
        if random.random() < 0.5:
            life.code, life.backfill = "plain", False
        made.lives.insert(at, life)
        at += 1
    return made


def embedded_history(seed: int) -> History:
    """The same for the embedded engine, which does not need all that Spark's own state does."""
    seeds = count(seed, _STRIDE)
    made = next(each for each in (history(s, processes=True) for s in seeds) if _is_avro(each))
    made.in_pandas = made.named = False
    back = Random(f"ways back of {seed}")
    for life in made.lives:
        lost = Random(seed).choice(["working", "commits"])
        replaced = [["lose", lost] if action[0] == "lose" else action for action in life.before]
        life.before = [
            each for each in replaced if each[0] in ("lose", "backup", "restore", "copy")
        ]
        if back.random() < 0.1:
            life.before.append(["rollback", False])
        life.checkpoint, life.early = "right", False
    return made


def paged_history(seed: int) -> History:
    """The same for state in pages, where a query has a backfill source from its first day."""
    seeds = count(seed, _STRIDE)
    made = next(s for s in (history(s, processes=True) for s in seeds) if s.key != "double")
    made.in_pandas = False
    for life in made.lives:
        life.before = [each for each in life.before if each[0] not in ("adopt", "undo")]
        life.checkpoint, life.early, life.backfill = "right", False, True
    return made


def _with_shares(made: History, random: Random) -> History:
    """Some of the plans are cut while the query runs."""
    for action in (each for life in made.lives for each in life.before):
        if action[0] == "plan" and random.random() < 0.4:
            action.append(random.choice([0.1, 0.5, 0.9]))
    return made


def _is_avro(made: History) -> bool:
    """Whether the embedded engine can hold it: keys without floats, values that Avro has."""
    return "double" not in (made.key, made.user_key) and not EXOTIC.keys() & made.types.values()


class _Generator:
    def __init__(self, random: Random, processes: bool) -> None:
        self._random = random
        self._processes = processes
        stores = random.sample(sorted(STORES), random.choice([1, 1, 2, 3]))
        is_exotic = random.random() < 0.1
        types = sorted(EXOTIC if is_exotic else VALUES)
        own = sorted(EXOTIC_USER_KEYS if random.random() < 0.05 else USER_KEYS)
        self._made = History(
            types={store: random.choice(types) for store in stores},
            key=random.choice(sorted(KEYS)),
            lives=[],
            user_key=random.choice(own),
            in_pandas=random.random() < 0.25,
            named=random.random() < 0.15,
            inputs=2 if random.random() < 0.2 else 1,
            one_way={s: [random.randint(1, LAST)] for s in stores if random.random() < 0.2},
        )
        self._revisions = dict.fromkeys(stores, 0)
        self._scripts = dict.fromkeys(stores, 0)
        self._backfill = random.random() < 0.5
        self._keys = keys_for(self._made)

    def history(self, lives: int | None) -> History:
        number = lives or self._random.randint(3, 7)
        is_plain = self._random.random() < 0.7
        self._made.lives = [self._life(at, is_plain=at == 0 and is_plain) for at in range(number)]
        self._made.lives.append(self._last())
        return self._made

    def _life(self, number: int, *, is_plain: bool) -> Life:
        random = self._random
        if number and random.random() < 0.6:
            self._step()
        before = self._before(number)
        life = Life(
            revisions=dict(self._revisions),
            scripts=dict(self._scripts),
            before=before,
            code="plain" if is_plain else "migrated",
            wrapper=random.choice(["class", "instance"]),
            targets=random.choice(["head", "named"]),
            checkpoint="right" if random.random() < 0.75 else "none",
            backfill=self._backfill,
            write_on_read=random.random() < 0.85,
            retire=random.random() < 0.8,
        )
        if life.targets == "head" and life.scripts != life.revisions:
            life.targets = "named"
        if number and random.random() < _ODD:
            self._oddity(life)
        life.feed = [self._file() for _ in range(random.choice([0, 1, 1, 2, 3]))]
        if not number and not life.feed:
            life.feed = [self._file()]
        life.end = self._end(life)
        return life

    def _last(self) -> Life:
        """All scripts' target, every key looked at."""
        life = Life(dict(self._revisions), dict(self._scripts), backfill=self._backfill)
        life.feed = [[[key, [["look"]]] for key in self._keys]]
        return life

    def _step(self) -> None:
        """Go forward with some stores, or back with one."""
        for store in self._revisions:
            if self._random.random() < 0.7:
                self._scripts[store] = min(
                    LAST, self._scripts[store] + self._random.choice([1, 1, 2])
                )
            if self._random.random() < 0.8:
                self._revisions[store] = self._scripts[store]
            elif self._random.random() < 0.5:
                self._revisions[store] = self._random.randint(0, self._scripts[store])

    def _before(self, number: int) -> list[list[Any]]:
        random, found = self._random, []
        if number and self._backfill:
            found += [["plan", random.choice([1, 2, 3, 100])]] if random.random() < 0.6 else []
            found += [["pause"]] if random.random() < 0.15 else []
        elif number and random.random() < 0.3:
            found, self._backfill = [["adopt"], ["plan", 2]], True
        if number and self._backfill and random.random() < 0.08:
            found, self._backfill = [["undo"]], False
        if random.random() < 0.05:
            found.append(["backup"])
        return found

    def _oddity(self, life: Life) -> None:
        random = self._random
        store = random.choice(sorted(life.scripts))
        odd = random.choice(
            ["plain", "plain later", "early", "early", "typo", "other", "gone", "gone", "all gone",
             "edited", "restore", "copy", "commits", "record", "statemigrate", "control log",
             "head", "format", "backfill", "plain"]
        )  # fmt: skip
        if odd == "plain":
            life.code, life.revisions = "plain", dict.fromkeys(life.revisions, 0)
        elif odd == "plain later":
            life.code = "plain"
        elif odd == "early":
            life.early = True
        elif odd in ("typo", "other"):
            life.checkpoint = odd  # type: ignore[assignment]
        elif odd in ("gone", "all gone"):
            self._without(life, [store] if odd == "gone" else sorted(life.scripts))
        elif odd == "edited":
            life.edited = [store]
        elif odd in ("restore", "copy"):
            life.before.append([odd])
        elif odd == "head":
            life.targets = "head"
        elif odd == "format":
            life.revisions[store] = random.randint(0, LAST)
        elif odd == "backfill":
            life.backfill = not life.backfill
        else:
            life.before.append(["lose", odd])

    def _without(self, life: Life, stores: list[str]) -> None:
        """Scripts reverted, or the wrong folder; the code is that of the first format, or not."""
        for store in stores:
            life.scripts[store] = self._random.choice([0, 0, max(0, life.scripts[store] - 1)])
            if self._random.random() < 0.7:
                life.revisions[store] = life.scripts[store]

    def _end(self, life: Life) -> list[Any] | None:
        if self._random.random() > 0.3:
            return None
        if not life.feed or self._random.random() < 0.4:
            return ["sink", self._random.choice([1, 1, 2, 3])]
        file = self._random.randrange(len(life.feed))
        key = self._random.choice(life.feed[file])[0]
        kind = "process" if self._processes and self._random.random() < 0.1 else "processor"
        return [kind, file, key]

    def _file(self) -> list[list[Any]]:
        random = self._random
        rows = random.choice([1, 3, 6, 10])
        return [[random.choice(self._keys), self._ops()] for _ in range(rows)]

    def _ops(self) -> list[list[Any]]:
        random = self._random
        ops = [
            self._op(random.choice(sorted(self._revisions))) for _ in range(random.randint(1, 3))
        ]
        return [["blind"], *ops] if random.random() < 0.2 else ops

    def _op(self, store: str) -> list[Any]:
        random, cases = self._random, len(values_of(self._made.types[store]))
        case, chance = random.randrange(cases), random.random()
        if chance < 0.15:
            return ["look"] if chance < 0.08 else ["clear", store]
        if store == "profile":
            return ["set", case]
        if store == "events":
            held = [random.randrange(cases) for _ in range(random.randint(1, 3))]
            return ["put" if chance < 0.3 else "append", held]
        own = random.randrange(len(user_keys_of(self._made.user_key)[1]))
        return ["remove", own] if chance < 0.3 else ["enter", own, case]
