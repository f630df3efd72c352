"""Settings of the whole test suite."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# The same examples on every run and every machine, however slow it is at the moment; a failure
# prints the line that repeats it.
settings.register_profile(
    "repeatable",
    derandomize=True,
    print_blob=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")

# `make test` makes it; see scripts/quick_spark.py.
quick_java = Path(sys.prefix, "java")
if (quick_java / "bin" / "java").exists():
    os.environ["JAVA_HOME"] = str(quick_java)
