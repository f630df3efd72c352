"""Queries with ``applyInPandasWithState`` as a test deploys them, one after the other."""

import json

from pyspark.sql.streaming.state import GroupStateTimeout
from tally import Expected
from tally_functions import FORMATS, Tally

from statemigrate import ENVELOPE, migrated
from statemigrate.native.control_rows import MARKER

NO = GroupStateTimeout.NoTimeout
CONTROL_ROWS = f"key STRING, cents BIGINT, name STRING, `{MARKER}` STRING"


class Deployments:
    """Deploys functions one after the other on one checkpoint, and reads back what they stored."""

    def __init__(self, pipeline, folder, timeouts=NO):
        self.pipeline = pipeline
        self.folder = folder
        self.timeouts = timeouts
        self.expected = Expected()

    def wrapped(self, function, revision, **options):
        targets = {"tally": revision}
        return migrated(function, store="tally", migrations=self.folder, targets=targets, **options)

    def run(self, revision, *batches, function=None, stream=None, **options):
        """Process batches under code for ``revision``."""
        self.pipeline.feed(*batches)
        self.start(self.wrapped(function or Tally(revision), revision, **options), stream)

    def start(self, function, stream=None, schema=ENVELOPE):
        pipeline = self.pipeline
        grouped = pipeline.grouped(pipeline.stream() if stream is None else stream)
        result = grouped.applyInPandasWithState(
            function, pipeline.output, schema, "Update", self.timeouts
        )
        query = pipeline.start(result)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def process(self, revision, *batches):
        """The same, and in the independent computation."""
        self.run(revision, *batches)
        for rows in batches:
            self.expected.process(rows, revision)

    def rows(self):
        reader = self.pipeline.spark.read.format("statestore")
        return {
            row.key[0]: row.value for row in reader.load(str(self.pipeline.checkpoint)).collect()
        }

    def stored(self):
        """By key the revision and the decoded value."""
        found = {key: value.groupState for key, value in self.rows().items()}
        return {
            key: (each.revision, FORMATS[each.revision].decode(bytes(each.payload)))
            for key, each in found.items()
        }

    def timeouts_by_key(self):
        return {key: value.timeoutTimestamp for key, value in self.rows().items()}

    def query_id(self):
        """The id of the query, as control rows name it."""
        return json.loads((self.pipeline.checkpoint / "metadata").read_text())["id"]
