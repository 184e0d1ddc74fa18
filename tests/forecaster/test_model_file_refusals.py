import copy
import json
import struct
import tracemalloc

import numpy as np
import pytest
from forecasters import fitted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lln import InputError
from lln.forecaster.file import load, save
from lln.models import build, save_model


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.lln"
    save(fitted(), path)
    return path.read_bytes()


def split(content):
    """Header and tensors, without the digest: a hostile file has none, and then its parts are all there is to check."""
    length = struct.unpack("<Q", content[:8])[0]
    outer = json.loads(content[8 : 8 + length])
    outer["__metadata__"].pop("sha256", None)
    return outer, content[8 + length :]


def joined(outer, body):
    text = json.dumps(outer).encode()
    return struct.pack("<Q", len(text)) + text + body


def changed(content, change):
    """The file with its lln header changed in place."""
    outer, body = split(content)
    header = json.loads(outer["__metadata__"]["lln"])
    change(header)
    outer["__metadata__"]["lln"] = json.dumps(header)
    return joined(outer, body)


def refuse(tmp_path, content, message):
    path = tmp_path / "bad.lln"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_missing(tmp_path):
    with pytest.raises(InputError, match=r"none\.lln: no such file; expected a model written by lln fit or lln\.save"):
        load(tmp_path / "none.lln")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1, -5000])
def test_truncated(tmp_path, content, kept):
    refuse(tmp_path, content[:kept], "not a whole model file")


def test_longer_than_it_says(tmp_path, content):
    refuse(tmp_path, content + b"more", "not a whole model file; its tensors and its length do not agree")


@pytest.mark.parametrize(
    "other", [b"hello, this is no model at all", b"time,x\n0,1\n1,2\n", b"\x89HDF\r\n\x1a\n" + bytes(99)]
)
def test_something_else(tmp_path, other):
    refuse(tmp_path, other, "not a whole model file")


def test_a_network_alone(tmp_path):
    save_model(build("lens", 3, 3, width=4, depth=2), tmp_path / "net")
    with pytest.raises(
        InputError, match=r"it holds a network alone, not a forecaster; open it with lln\.models\.load_model"
    ):
        load(tmp_path / "net")


def test_somebody_elses_safetensors(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.ones(3)}, tmp_path / "other")
    with pytest.raises(InputError, match="a safetensors file, but not one that lln wrote"):
        load(tmp_path / "other")


def test_a_newer_format(tmp_path, content):
    newer = changed(content, lambda h: h.update(format=99, lln="7.0"))
    refuse(tmp_path, newer, r"written by lln 7\.0 in format 99, this lln .* reads up to format 2; update lln")


def test_a_header_that_is_no_header(tmp_path, content):
    outer, body = split(content)
    for text in (
        "{broken",
        "[]",
        "null",
        "{}",
        '{"format": "one", "lln": "0"}',
        '{"format": 1e999, "lln": "0"}',
        "[" * 100_000,
    ):
        outer["__metadata__"]["lln"] = text
        refuse(tmp_path, joined(outer, body), "its lln configuration is damaged")


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["network"]["config"].update(width=10**9),
        lambda h: h["network"]["config"].update(depth=10**12),
        lambda h: h["network"]["config"].update(basis=10**10),
        lambda h: h["network"]["config"].update(n_in=10**8, n_out=10**8),
        lambda h: h["network"].update(members=10**9),
        lambda h: h["network"].update(model="mlp"),
        lambda h: h["network"].update(model="os.system"),
        lambda h: h["network"]["config"].update(colour=1),
        lambda h: h["frame"].update(history=10**9),
        lambda h: h["frame"].update(history="many"),
        lambda h: h["data"].update(names=["x"]),
        lambda h: h["data"].update(space=[10**6, 10**6]),
        lambda h: h["data"].update(dt="soon"),
        lambda h: h["training"].update(rows=[[1]]),
        lambda h: h["parameters"].update(colour="red"),
        lambda h: h["report"].update(parameters="many"),
        lambda h: h["report"].update(parameters=None),
        lambda h: h["report"].update(seconds=[]),
        lambda h: h["report"].update(model=3),
        lambda h: h.pop("report"),
        lambda h: h.pop("recipe"),
        lambda h: h.pop("data"),
    ],
)
def test_a_configuration_that_the_tensors_do_not_bear_out(tmp_path, content, change):
    tracemalloc.start()
    refuse(tmp_path, changed(content, change), ".")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(content) + 5_000_000


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(shape=[10**12]),
        lambda e: e.update(shape=[-3]),
        lambda e: e.update(shape=[2.5]),
        lambda e: e.update(shape="big"),
        lambda e: e.update(data_offsets=[0, 10**15]),
        lambda e: e.update(data_offsets=[-8, 16]),
        lambda e: e.update(dtype="BF16"),
        lambda e: e.pop("dtype"),
    ],
)
def test_a_tensor_that_is_not_there(tmp_path, content, change):
    outer, body = split(content)
    outer = copy.deepcopy(outer)
    change(outer["frame.mean"])
    refuse(tmp_path, joined(outer, body), "not a whole model file")


@pytest.mark.parametrize(
    "filling",
    [
        {"season": -3, "mean": [0.0] * 3, "parts": [1.0] * 3},
        {"season": 3, "mean": [0.0], "parts": [1.0]},
        {"season": 3, "mean": [0.0] * 3, "parts": [1.0]},
        {"season": 3, "mean": [float("nan")] * 3, "parts": [1.0] * 3},
        [1, 2],
    ],
)
def test_gaps_filled_in_as_no_fit_does(tmp_path, content, filling):
    refuse(tmp_path, changed(content, lambda h: h["data"].update(filling=filling)), "do not fit together")


def test_a_frame_of_nan(tmp_path, content):
    outer, body = split(content)
    first, last = outer["frame.scale"]["data_offsets"]
    refuse(tmp_path, joined(outer, body[:first] + b"\xff" * (last - first) + body[last:]), "not finite")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), value=st.integers(0, 255))
def test_one_wrong_byte_is_refused_in_a_sentence_or_harmless(tmp_path, content, place, value):
    spot = int(place * (len(content) - 1))
    path = tmp_path / "flipped"
    path.write_bytes(content[:spot] + bytes([value]) + content[spot + 1 :])
    said = ""
    try:
        load(path)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
