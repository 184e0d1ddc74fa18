import pytest
from paper_records import Writer, full_writer


@pytest.fixture(scope="session")
def printed_records(tmp_path_factory):
    """A folder of records with exactly the printed means and deviations."""
    return full_writer().write(tmp_path_factory.mktemp("printed"))


@pytest.fixture
def writer():
    return Writer()
