import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from lln.core.safe_files import BLANK, KEY, broken, sealed


@pytest.fixture
def content():
    return sealed(save({"x": np.arange(5.0)}, metadata={"lln": '{"sha256":"of no matter"}', KEY: BLANK}))


def is_broken(path):
    try:
        with safe_open(path, framework="numpy") as file:
            file.get_tensor("x")
            return broken(path, file.metadata() or {}, "lln")
    except Exception:
        return True


def test_a_sealed_file_is_a_safetensors_file_that_is_whole(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    assert not is_broken(path)
    with safe_open(path, framework="numpy") as file:
        assert (file.get_tensor("x") == np.arange(5.0)).all()


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_one_flipped_bit_anywhere_is_noticed(tmp_path, content, bit):
    path = tmp_path / "a"
    missed = []
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        if not is_broken(path):
            missed.append(place)
    assert not missed


def test_a_file_from_before_there_were_digests_is_taken_as_it_is(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(save({"x": np.arange(5.0)}, metadata={"lln": "{}"}))
    assert not is_broken(path)


def test_the_same_content_gives_the_same_bytes():
    metadata = {"lln": "{}", KEY: BLANK, "z": "ä", "a": "1"}
    files = {sealed(save({"x": np.arange(5.0)}, metadata=metadata)) for _ in range(20)}
    assert len(files) == 1
