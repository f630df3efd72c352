"""Checkpoints as Spark lays them out, as far as their offset log goes, written by hand."""

import json
import zlib
from pathlib import Path

PROCESSOR = "transformWithStateInPySparkExec"
METADATA = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})


def checkpoint(root: Path, *, batches: int = 3, sources: int = 1) -> Path:
    """A query that committed its batches and was stopped."""
    for folder in ("offsets", "commits", "sources/0"):
        (root / folder).mkdir(parents=True)
    operator(root)
    (root / "metadata").write_text('{"id":"2b9f2f0e-0000-4000-8000-000000000000"}')
    for number in range(batches):
        run_batch(root, number, *[json.dumps({"logOffset": number})] * sources)
    return root


def operator(root: Path, number: int = 0, name: str = PROCESSOR, at: Path | None = None) -> None:
    """Note a stateful operator as Spark does, its schema ``at`` another checkpoint if given."""
    below = f"state/{number}/_stateSchema/default/0_{number}"
    put(root / below, "schema")
    stores = [{"storeName": "default", "stateSchemaFilePaths": [f"file:{at or root}/{below}"]}]
    document = {"operatorInfo": {"operatorId": number, "operatorName": name}}
    document |= {"stateStoreInfo": stores, "operatorPropertiesJson": '{"stateVariables":[]}'}
    put(root / f"state/{number}/_metadata/v2/0", f"v2\n{json.dumps(document)}")


def old_operator(root: Path, number: int, name: str, value: dict[str, object]) -> None:
    """Note one of the operators whose metadata are of version 1, with the schema of its rows."""
    for each in (root / "state" / str(number)).rglob("*"):
        if each.is_file():
            each.unlink()
    info = {"operatorInfo": {"operatorId": number, "operatorName": name}, "stateStoreInfo": []}
    put(root / f"state/{number}/_metadata/metadata", f"v1\n{json.dumps(info)}")
    text = json.dumps(value).encode()
    schema = b"\0\x02v2" + 2 * (b"\0\0\0\x01" + len(text).to_bytes(2) + text)
    path = root / f"state/{number}/0/_metadata/schema"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(schema)


def run_batch(root: Path, number: int, *offsets: str) -> None:
    """Log a batch with these offsets, and commit it; every source keeps a file."""
    put(root / "offsets" / str(number), "\n".join(["v1", METADATA, *offsets]))
    put(root / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
    for source, offset in enumerate(offsets):
        if offset != "-":
            file = json.dumps({"path": f"file:///in/{number}", "timestamp": 1, "batchId": number})
            put(root / "sources" / str(source) / str(number), f"v1\n{file}")


def put(path: Path, text: str) -> None:
    """Write a file with the checksum file that Hadoop puts beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    checksum = zlib.crc32(text.encode()).to_bytes(4)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\0\0\2\0" + checksum)


def kill_last_batch(root: Path) -> None:
    """Take the newest commit away, as a query killed in its batch would have left it."""
    newest = max(int(each.name) for each in (root / "commits").iterdir() if each.name.isdecimal())
    for name in (f"{newest}", f".{newest}.crc"):
        (root / "commits" / name).unlink()


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file's content and every directory, by path."""
    return {
        str(each.relative_to(root)): each.read_bytes() if each.is_file() else None
        for each in sorted(root.rglob("*"))
    }


def lines(root: Path) -> dict[int, list[str]]:
    """The sources' offsets by batch."""
    files = [each for each in (root / "offsets").iterdir() if each.name.isdecimal()]
    return {int(each.name): each.read_text().split("\n")[2:] for each in files}
