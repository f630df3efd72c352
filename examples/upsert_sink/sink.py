"""A sink that upserts: one row a key, from the newest batch that gave one."""

import sqlite3
from contextlib import closing

TABLE = """
CREATE TABLE IF NOT EXISTS totals (
    auction BIGINT PRIMARY KEY,
    cents BIGINT NOT NULL,
    batch BIGINT NOT NULL
)
"""
# A batch that comes again finds its own id and writes the same rows; an older one changes nothing.
UPSERT = """
INSERT INTO totals AS t (auction, cents, batch) VALUES (?, ?, ?)
ON CONFLICT (auction) DO UPDATE SET cents = excluded.cents, batch = excluded.batch
WHERE excluded.batch >= t.batch
"""


def upsert_into(path):
    """A sink for the SQLite database at ``path``: a batch is written whole or not at all."""

    def write(rows, batch):
        values = ((row.auction, row.cents, batch) for row in rows.toLocalIterator())
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(TABLE)
            database.executemany(UPSERT, values)

    return write
