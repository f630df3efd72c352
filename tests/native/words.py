"""Words a key in a list and in a map, in two formats, and a plain computation of both."""

from collections import defaultdict

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

ROWS = "key STRING, word STRING, op STRING"
OUTPUT = "key STRING, seen STRING"
SCRIPT = """
from statemigrate.formats import Struct

revision = "{revision}"
down_revision = None
branch_labels = ("{store}",)
store = "{store}"
old = Struct("word STRING, n BIGINT")
new = Struct("text STRUCT<word: STRING, length: INT>, n BIGINT, moved BIGINT")


def upgrade(value):
    text = {{"word": value["word"], "length": len(value["word"])}}
    return {{"text": text, "n": value["n"], "moved": value.get("moved", 0) + 1}}


def downgrade(value):
    return {{"word": value["text"]["word"], "n": value["n"]}}
"""
OLD = "word STRING, n BIGINT"
NEW = "text STRUCT<word: STRING, length: INT>, n BIGINT, moved BIGINT"
LIST, MAP = "aaaa00000001", "aaaa00000002"


class Words(StatefulProcessor):
    """Keeps a key's words in order in a list, and how often each came in a map."""

    ddl = OLD

    def init(self, handle):
        self.words = handle.getListState("words", self.ddl)
        self.counts = handle.getMapState("counts", "word STRING", self.ddl)

    def handleInputRows(self, key, rows, timer_values):
        for row in rows:
            self.one(row.op, row.word)
        seen = [self.word(value) for value in self.words.get()]
        counts = {each[0]: self.n(value) for each, value in self.counts.iterator()}
        yield Row(key=key[0], seen=f"{seen} {sorted(counts.items())}")

    def one(self, op, word):
        if op == "add":
            self.words.appendValue(self.made(word, 1))
            found = self.counts.getValue((word,))
            self.counts.updateValue((word,), self.made(word, 1 + (self.n(found) if found else 0)))
        elif op == "remove":
            self.counts.removeKey((word,))
        elif op == "clear":
            self.words.clear()
            self.counts.clear()
        elif op == "put":
            self.words.put([self.made(word, 1)])
        elif op == "count":
            found = self.counts.containsKey((word,))
            self.counts.updateValue((word,), self.made(word, 100 + found))

    def made(self, word, n):
        return (word, n)

    def word(self, value):
        return value[0]

    def n(self, value):
        return value[1]

    def close(self):
        pass


class NewWords(Words):
    ddl = NEW

    def made(self, word, n):
        return ((word, len(word)), n, 0)

    def word(self, value):
        return value[0].word

    def n(self, value):
        return value[1]


class InPandas:
    """The same over DataFrames."""

    def handleInputRows(self, key, rows, timer_values):
        for frame in rows:
            assert list(frame.columns) == ["key", "word", "op"]
            for row in frame.itertuples():
                self.one(row.op, row.word)
        (row,) = super().handleInputRows(key, iter(()), timer_values)
        yield pd.DataFrame([row.asDict()])


class WordsInPandas(InPandas, Words):
    pass


class NewWordsInPandas(InPandas, NewWords):
    pass


class Model:
    """What the words and counts of each key must be, in plain Python."""

    def __init__(self):
        self.words = defaultdict(list)
        self.counts = defaultdict(dict)

    def run(self, rows):
        for key, word, op in rows:
            words, counts = self.words[key], self.counts[key]
            if op == "add":
                words.append(word)
                counts[word] = counts.get(word, 0) + 1
            elif op == "remove":
                counts.pop(word, None)
            elif op == "clear":
                words.clear()
                counts.clear()
            elif op == "put":
                words[:] = [word]
            elif op == "count":
                counts[word] = 100 + (word in counts)

    def seen(self, keys):
        return {key: f"{self.words[key]} {sorted(self.counts[key].items())}" for key in keys}


def write_scripts(scripts):
    """One script for the list, one for the map; the folder."""
    scripts.write(amounts=None)
    for name, store, revision in (("list", "words", LIST), ("map", "counts", MAP)):
        text = SCRIPT.format(revision=revision, store=store)
        (scripts.folder.versions / f"{name}.py").write_text(f'"""Change {name}."""\n{text}')
    return scripts.directory
