"""What Spark and Java say of themselves when they start is left out of a command's output.

What they say of anything else is passed on, and who configures Spark's logging, or asks for
``--debug``, sees everything.
"""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LOGGING = "-Dlog4j2.configurationFile"
_OWN = Path(__file__).parent / "log4j2.properties"
_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
"""Where Java's options, and so another configuration of the logging, may be said."""
_ENDINGS = ("properties", "xml", "yaml", "yml", "json", "jsn")
# Java says so of any program with such a module, and no option of its own keeps it from that.
_OF_JAVA = b"WARNING: Using incubator modules:"
_CHUNK = 1 << 16


def is_quiet() -> bool:
    """Whether Spark's own messages are left out: nobody has configured them, or asked for them."""
    folder = os.environ.get("SPARK_CONF_DIR", "")
    if folder and any((Path(folder) / f"log4j2.{ending}").exists() for ending in _ENDINGS):
        return False
    if any("log4j" in os.environ.get(name, "") for name in _OPTIONS):
        return False
    context = click.get_current_context(silent=True)
    return context is None or not getattr(context.obj, "debug", False)


def quiet_settings() -> dict[str, str]:
    """The settings that keep Spark's messages to itself; the user's own options count over them."""
    return {"spark.driver.defaultJavaOptions": f'"{LOGGING}={_OWN.as_uri()}"'}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process where there is none, and pass on what it says.

    ``settings`` are the session's, which the JVM is started with.
    """
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is not None:
        return
    launch: Any = java_gateway.launch_gateway
    gateway = launch(SparkConf().setAll(list(settings.items())), {"stderr": subprocess.PIPE})
    source = gateway.proc.stderr.fileno()
    threading.Thread(target=pass_on, args=(source, _say), daemon=True).start()
    context: Any = SparkContext
    context._ensure_initialized(gateway=gateway)


def pass_on(source: int, say: Callable[[bytes], None]) -> None:
    """Hand what comes from the file ``source`` to ``say``, but for what Java says of modules."""
    rest = b""
    while data := os.read(source, _CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        told = b"".join(each + b"\n" for each in lines if not each.startswith(_OF_JAVA))
        if told:
            say(told)
    if rest:
        say(rest)


def _say(told: bytes) -> None:
    try:
        os.write(2, told)
    except OSError:
        # Nobody listens any more; Java is not to wait for that, and so the rest is still read.
        return
