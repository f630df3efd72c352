"""The output: a row an account in PostgreSQL, written so that a batch may come again."""

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS checkpoints (
    query UUID PRIMARY KEY,
    generation INT GENERATED ALWAYS AS IDENTITY
);
CREATE TABLE IF NOT EXISTS balances (
    account TEXT PRIMARY KEY,
    balance NUMERIC(18, 2) NOT NULL,
    movements INT NOT NULL,
    largest NUMERIC(18, 2) NOT NULL,
    generation INT NOT NULL,
    batch BIGINT NOT NULL
)
"""
# A checkpoint's batches count from 0, so a new one is a new generation: newer than all before.
REGISTER = "INSERT INTO checkpoints (query) VALUES (%s) ON CONFLICT DO NOTHING"
GENERATION = "SELECT generation FROM checkpoints WHERE query = %s"
INCOMING = "CREATE TEMPORARY TABLE incoming (LIKE balances) ON COMMIT DROP"
# A batch that comes again finds its own id and writes the same rows; an older one changes nothing.
UPSERT = """
INSERT INTO balances AS old SELECT * FROM incoming
ON CONFLICT (account) DO UPDATE SET
    balance = excluded.balance, movements = excluded.movements, largest = excluded.largest,
    generation = excluded.generation, batch = excluded.batch
WHERE (excluded.generation, excluded.batch) >= (old.generation, old.batch)
"""


def upsert_into(database):
    """A sink for ``foreachBatch``: a batch is one transaction, written whole or not at all."""
    with psycopg.connect(database) as connection:
        connection.execute(TABLES)

    def write(rows, batch):
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        with psycopg.connect(database) as connection:
            connection.execute(REGISTER, [query])
            (generation,) = connection.execute(GENERATION, [query]).fetchone()
            connection.execute(INCOMING)
            with connection.cursor().copy("COPY incoming FROM STDIN") as copy:
                for row in rows.toLocalIterator():
                    copy.write_row((*row, generation, batch))
            connection.execute(UPSERT)

    return write
