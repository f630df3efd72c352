"""Preview: new code run on the batches that a query has committed, and what comes of it."""
