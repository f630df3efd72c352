"""What a bucket does that fails, and what the one way to files makes of it."""

import http.client
import json
import os
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import replace

import pytest
from native_pipeline import NativePipeline
from support.files_contract import CONTENT, FilesContract
from systems.s3_proxy import Faults, S3Proxy
from tally import AmountsTally, CentsTally, batch

from statemigrate import RewriteOptions, get, migrated, rewrite, status
from statemigrate.commands.rewrite import verify
from statemigrate.errors import StorageError
from statemigrate.files import hadoop_failures as reaching
from statemigrate.files.open import open_files

pytestmark = pytest.mark.integration

OFTEN = Faults(seed=7, slow_down=0.1, drop_before=0.05, drop_after=0.05, cut=0.05, delay=0.1)


class OneFault(S3Proxy):
    """Of which one request of some verbs meets a fault, and no other one does."""

    def switch(self, faults=None):
        self.waiting = None
        super().switch(faults)

    def wait(self, kind, *verbs, passed=0, goes_on=None):
        """Let the next such request meet the fault, after so many that pass; then others."""
        self.waiting, self.passed, self.goes_on = (kind, verbs), passed, goes_on
        self.requests.clear()

    def draw(self, verb):
        if self.waiting is not None and verb in self.waiting[1]:
            self.passed -= 1
            if self.passed < 0:
                kind = self.waiting[0]
                self.switch(self.goes_on)
                return self.faults, kind, 0.0
        return super().draw(verb)


@pytest.fixture(scope="module")
def proxy(spark, s3):
    made = OneFault(s3.endpoint)
    s3.bucket("failing")
    conf = spark._jsc.hadoopConfiguration()
    settings = {"endpoint": made.endpoint, "retry.interval": "50ms", "retry.limit": "7"}
    settings |= {"retry.throttle.interval": "50ms", "retry.throttle.limit": "7"}
    for name, value in settings.items():
        conf.set(f"fs.s3a.bucket.failing.{name}", value)
    # The first request loads the connector's classes, for seconds on a busy machine.
    bucket = spark._jvm.org.apache.hadoop.fs.Path("s3a://failing/")
    assert bucket.getFileSystem(conf).exists(bucket)
    reaching._reached.add(("s3a", "failing"))
    yield made
    made.stop()


@pytest.fixture
def files(proxy, request):
    proxy.switch()
    yield open_files(f"s3a://failing/{request.node.name}")
    proxy.switch()


class TestFilesOfABucketThatFails(FilesContract):
    """All that is promised of files, with a fault at every fourth request."""

    @pytest.fixture
    def files(self, proxy, files):
        proxy.switch(OFTEN)
        return files


@pytest.mark.parametrize("fault", ["slow_down", "drop_before", "drop_after"])
@pytest.mark.parametrize("verb", ["create", "put"])
def test_a_file_is_made_once_whatever_becomes_of_the_answer(proxy, files, verb, fault):
    proxy.wait(fault, verb)
    getattr(files, verb)("made", b"own")
    assert proxy.injected == {fault: 1}
    assert files.get("made") == b"own"
    with pytest.raises(FileExistsError):
        files.create("made", b"another's")
    assert files.get("made") == b"own"


def test_another_ones_file_is_not_taken_for_the_own_whose_answer_was_lost(proxy, files):
    files.create("made", b"another's")
    proxy.wait("drop_after", "create")
    with pytest.raises(FileExistsError):
        files.create("made", b"own")
    assert proxy.injected == {"drop_after": 1}
    assert files.get("made") == b"another's"


@pytest.mark.parametrize("cut", [False, True])
def test_what_breaks_off_while_it_is_read_is_read_again(proxy, files, tmp_path, cut):
    content = os.urandom(300_000)
    files.put("large", content)
    proxy.wait("cut", "get")
    assert files.get("large") == content
    assert proxy.injected == {"cut": 1}
    files.put("other", content)
    proxy.wait("cut", "get")
    most = 200_000 if cut else 300_000
    files.fetch("other", tmp_path / "target", most=most, cut=cut)
    assert proxy.injected == {"cut": 1}
    assert (tmp_path / "target").read_bytes() == content[:most]


def test_credentials_that_have_expired_are_named_and_new_ones_are_enough(proxy, files):
    files.create("made", b"own")
    proxy.switch(Faults(expired=True))
    asked = {
        "get": lambda: files.get("other"),
        "list": lambda: files.list("folder"),
        "find": lambda: files.find("made"),
        "create": lambda: files.create("more", b"own"),
        "put": lambda: files.put("more", b"own"),
        "replace": lambda: files.replace("made", b"new"),
        "delete": lambda: files.delete(["made"]),
    }
    for verb, ask in asked.items():
        with pytest.raises(StorageError) as raised:
            ask()
        assert "fs.s3a.access.key" in str(raised.value.expected), verb
        assert "403" in str(raised.value.found), verb
    proxy.switch()
    assert [each.name for each in files.list()] == ["made"]
    assert files.get("made") == b"own"


def test_a_listing_may_tell_of_what_was(proxy, files):
    files.put("statemigrate/a", CONTENT)
    proxy.switch(Faults(stale=1.0, lag=60.0))
    assert files.list("statemigrate") == ()
    proxy.switch(Faults(stale=1.0, lag=0.0))
    files.put("statemigrate/b/c", CONTENT)
    found = [(each.name, each.kind, each.size) for each in files.list("statemigrate")]
    assert found == [
        ("statemigrate/a", "file", len(CONTENT)),
        ("statemigrate/b", "folder", 0),
    ]
    files.delete(["statemigrate/a"])
    proxy.switch(Faults(stale=1.0, lag=0.0))
    assert [each.name for each in files.list("statemigrate")] == ["statemigrate/b"]


@pytest.fixture
def kept(spark, proxy, tmp_path, scripts):
    """What looks at a query on Spark's own state, and what each look has to find."""
    proxy.switch()
    place = f"s3a://failing/{tmp_path.name}"
    pipeline = NativePipeline(spark, tmp_path / "pipeline", checkpoint_directory=place)
    pipeline.feed(batch("first", range(20)))
    pipeline.deploy_natively(CentsTally())
    settings = {"migrations": scripts.write()}
    yield {
        "check at the start": lambda: (
            migrated(AmountsTally(), checkpoint=place, **settings) is not None
        ),
        "status": lambda: status(place, spark=spark, **settings).stores != (),
        "get": lambda: get("tally", place, "k3", spark=spark, **settings)["n"] == 1,
    }
    proxy.switch()


@pytest.mark.parametrize("look", ["check at the start", "status", "get"])
def test_a_look_reads_again_what_breaks_off_whoever_reads_it(proxy, kept, look):
    cut = 0
    for number in (0, 2, 5):
        # What the first look has read the connector may still have, and then it asks for nothing.
        proxy.wait("cut", "get", passed=number)
        assert kept[look]()
        asked = sum(each.verb == "get" for each in proxy.requests)
        assert proxy.injected == ({"cut": 1} if asked > number else {}), asked
        cut += proxy.injected["cut"]
    assert cut


def test_a_verification_takes_no_failure_of_the_bucket_for_one_of_the_state(
    spark, proxy, tmp_path, scripts
):
    proxy.switch()
    old, new = (f"s3a://failing/{tmp_path.name}-{name}" for name in ("old", "new"))
    pipeline = NativePipeline(spark, tmp_path / "pipeline", checkpoint_directory=old)
    pipeline.feed(batch("first", range(20)))
    pipeline.deploy_natively(CentsTally())
    options = RewriteOptions(partitions=1)
    rewrite(old, new, options=options, migrations=scripts.write(), apply=True, spark=spark)

    def problems():
        return verify(old, new, migrations=scripts.directory, spark=spark).problems

    # Now and then all attempts break off; the state is sound all the same.
    proxy.requests.clear()
    # One verification reads some fifty files, and chance may cut none of them.
    for seed in range(1, 10):
        proxy.switch(Faults(seed=seed, cut=0.1))
        with suppress(StorageError):
            assert problems() == ()
        if proxy.injected["cut"]:
            break
    assert proxy.injected["cut"]
    proxy.wait("expired", "get", passed=20, goes_on=Faults(expired=True))
    with pytest.raises(StorageError) as raised:
        problems()
    assert "have not expired" in str(raised.value.expected)
    proxy.switch()


@pytest.mark.parametrize("look", ["check at the start", "status", "get"])
def test_a_look_says_when_credentials_have_expired_whoever_reads(proxy, kept, look):
    proxy.wait("expired", "get", passed=6, goes_on=Faults(expired=True))
    with pytest.raises(StorageError) as raised:
        kept[look]()
    assert "have not expired" in str(raised.value.expected)
    proxy.switch()
    assert kept[look]()


def test_faults_are_switched_and_requests_counted_from_elsewhere(proxy):
    def ask(method, path, data=None):
        url = f"{proxy.endpoint}{path}"
        request = urllib.request.Request(url, data=data, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.read()

    proxy.requests.clear()
    ask("PUT", "/failing/object", b"content")
    ask("PUT", "/-/faults", json.dumps({"slow_down": 1.0}).encode())
    with pytest.raises(urllib.error.HTTPError, match="503"):
        ask("GET", "/failing/object")
    ask("PUT", "/-/faults", json.dumps({"drop_after": 1.0}).encode())
    with pytest.raises((urllib.error.URLError, http.client.HTTPException, ConnectionError)):
        ask("DELETE", "/failing/object")
    ask("PUT", "/-/faults", b"{}")
    told = json.loads(ask("GET", "/-/requests"))
    assert told["requests"] == {"put": 1, "get": 1, "delete": 1}
    assert told["injected"] == {"slow_down": 1, "drop_after": 1}


def test_the_same_seed_fails_the_same_requests():
    made = [S3Proxy("http://127.0.0.1:1", replace(OFTEN, seed=seed)) for seed in (1, 1, 2)]
    first, again, other = ([one.draw("get")[1:] for _ in range(200)] for one in made)
    for one in made:
        one.stop()
    assert first == again != other
