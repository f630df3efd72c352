"""How often a check asks the file system of a checkpoint: once for each file that it reads."""

from collections import Counter

import pytest
from tally import AMOUNTS, AmountsTally, CentsTally, batch

from statemigrate import migrated, status
from statemigrate.files import LocalFiles

pytestmark = pytest.mark.spark


@pytest.fixture
def asked(monkeypatch):
    """Every question, as its verb and the name that was asked for."""
    questions = Counter()

    def counted(verb):
        real = getattr(LocalFiles, verb)

        def ask(files, name="", *rest, **how):
            questions[verb, name] += 1
            return real(files, name, *rest, **how)

        return ask

    for verb in ("get", "list", "find"):
        monkeypatch.setattr(LocalFiles, verb, counted(verb))
    return questions


@pytest.fixture
def deployed(pipeline, scripts):
    """A query that has run with two formats, some keys still in the first."""
    folder = scripts.write()
    pipeline.feed(batch("first", range(20)))
    pipeline.deploy_natively(CentsTally())
    pipeline.feed(batch("second", range(5)))
    processor = migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    pipeline.deploy_natively(processor)
    return pipeline, folder


def test_the_check_at_the_start_asks_once_for_each_file(deployed, asked):
    pipeline, folder = deployed
    migrated(AmountsTally(), migrations=folder, checkpoint=pipeline.checkpoint)
    assert_once(asked)
    assert ("get", "statemigrate/deployed.json") in asked


def test_status_asks_once_for_each_file(deployed, asked):
    pipeline, folder = deployed
    found = status(pipeline.checkpoint, migrations=folder)
    assert (found.left, found.stores[0].target) == (15, AMOUNTS)
    assert_once(asked)


def assert_once(asked):
    assert {question: times for question, times in asked.items() if times > 1} == {}
