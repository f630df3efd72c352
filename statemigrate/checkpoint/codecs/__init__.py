"""The codecs of Spark's state files, in the framings that Spark's Java libraries give them."""

from statemigrate.checkpoint.codecs.opening import (
    Compressor,
    compressing,
    decompressed,
    most_content,
)

__all__ = ["Compressor", "compressing", "decompressed", "most_content"]
