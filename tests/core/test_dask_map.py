import operator
import subprocess
import sys

import pytest

from lln.core.errors import InputError
from lln.core.workers import DaskMap, serial

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("dask"))
    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": folder}
    with distributed.LocalCluster(2, **options) as running:
        yield running.scheduler_address


def test_values_come_in_the_order_of_the_items(address):
    with DaskMap(address) as mapper:
        assert list(mapper(operator.mul, 3, range(20))) == list(serial(operator.mul, 3, range(20)))


def test_values_that_are_not_taken_are_cancelled(address):
    with DaskMap(address) as mapper:
        assert next(mapper(operator.mul, 3, range(4, 20))) == 12
        assert list(mapper(operator.add, 3, [1])) == [4]


def test_an_exception_of_a_call_is_raised_where_its_value_is_taken(address):
    with DaskMap(address) as mapper:
        values = mapper(operator.truediv, 6, [2, 0])
        assert next(values) == 3
        with pytest.raises(ZeroDivisionError):
            next(values)


def test_what_cannot_be_sent_is_refused(address):
    with DaskMap(address) as mapper, pytest.raises(InputError, match="cannot be sent to a cluster"):
        next(mapper(operator.mul, (n for n in range(3)), [1]))


def test_the_serial_mapper_calls_only_what_is_asked_for():
    values = serial(operator.truediv, 6, [2, 0])
    assert next(values) == 3


def test_a_wrong_address_is_one_sentence_and_nothing_else():
    code = "from lln.core.errors import InputError\nfrom lln.core.workers import connect\n"
    code += "try:\n    connect('nowhere')\nexcept InputError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("no Dask scheduler answers at 'nowhere': missing port number")
    assert done.stderr == ""
