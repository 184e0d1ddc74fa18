import datetime

import lln
from lln.core.provenance import commit, processor, provenance, version_of
from lln.train.batches import subseed


def test_subseeds_are_fixed_forever():
    """A changed value would silently change every study, so it is written down here."""
    assert subseed(0) == 3456079177858693020
    assert subseed(7, "batches", 3) == 2112360066031679246


def test_subseeds_depend_on_every_element():
    seeds = {subseed(0), subseed(1), subseed(0, "a"), subseed(0, "a", 1), subseed(0, "a", 2), subseed(0, "a1")}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert subseed(0, 1) == subseed(0, "1")


def test_provenance_says_machine_versions_and_date():
    record = provenance("torch", "no-such-package")
    assert record["lln"] == lln.__version__
    assert record["no-such-package"] is None
    assert str(record["torch"]).startswith("2.")
    assert isinstance(record["cores"], int)
    when = datetime.datetime.strptime(str(record["date"]), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    assert abs(datetime.datetime.now(datetime.UTC) - when) < datetime.timedelta(minutes=5)
    assert all(isinstance(value, str | int | None) for value in record.values())


def test_names_of_things_that_may_be_missing():
    assert processor()
    assert version_of("no-such-package") is None
    found = commit()
    assert found is None or len(found.rstrip("+")) == 12
