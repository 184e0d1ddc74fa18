"""What every format of data files must do, those of other packages included: what is written is read again."""

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lln.core.errors import InputError
from lln.data import Dataset, Series
from lln.data.read.formats import FORMATS, Format, read, write

SUFFIXES = list(FORMATS)
ARRAY_ALONE = {".npy"}  # keeps the states and nothing else
numbers = st.floats(allow_nan=True, allow_infinity=False, width=64, allow_subnormal=False)
steps = st.sampled_from([0.1, 1.0, 1 / 3, 2.5e-4, 3600.0])
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="[]/="),
    min_size=1,
    max_size=8,
)
RESERVED = {"time", "times", "t", "date", "datetime", "timestamp", "weight", "index", "id", "year", "quarter", "month"}


def plain(name):
    """Whether a name says nothing of the role of its column."""
    from lln.data.interpret.description import TRAJECTORY_NAMES

    low = name.strip().lower()
    number = False
    with contextlib.suppress(ValueError):
        number = float(low) is not None
    odd = low.startswith(("input:", "unnamed", "#", "'", '"')) or low.split("(")[0] in RESERVED or "(" in low
    return not (odd or number or low in TRAJECTORY_NAMES or low in RESERVED or low in ("-", "?", "nan", "na", "day"))


@st.composite
def datasets(draw):
    """Trajectories of a few rows and columns, with gaps, names, inputs and weights; a column is never empty."""
    width, count = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    known, weighted = draw(st.integers(0, 2)), draw(st.booleans())
    series = []
    for _ in range(count):
        rows = draw(st.integers(3, 6))
        states = draw(arrays(np.float64, (rows, width), elements=numbers))
        states[0] = np.nan_to_num(states[0])
        inputs = draw(arrays(np.float64, (rows, known), elements=numbers)) if known else None
        weights = draw(arrays(np.float64, rows, elements=st.floats(0, 10))) if weighted else None
        series.append(Series(states, inputs, weights))
    columns = draw(st.lists(names.filter(plain), min_size=width + known, max_size=width + known, unique_by=str.lower))
    return Dataset(tuple(series), draw(steps), tuple(columns[:width]), tuple(columns[width:]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_format_has_its_parts(suffix):
    form = FORMATS.get(suffix)
    assert suffix.startswith(".")
    assert isinstance(form.name, str)
    assert callable(form.read)
    assert callable(form.write)
    assert isinstance(form.folder, bool)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a case made smaller would take minutes with formats that start a process
    suppress_health_check=list(HealthCheck),
)
@given(data=datasets())
def test_what_is_written_is_read_again(suffix, data):
    alone = suffix in ARRAY_ALONE
    if alone:
        lengths = {len(one) for one in data.series}
        data = Dataset(tuple(Series(one.states) for one in data.series), data.dt, data.names)
        if len(lengths) > 1:
            return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        write(path, data)
        found = read(path, dt=data.dt, names=data.names, time=0) if alone else read(path)
        assert (found.names, found.lengths, found.dt) == (data.names, data.lengths, data.dt)
        assert found.input_names == data.input_names
        for one, other in zip(found.series, data.series, strict=True):
            np.testing.assert_array_equal(one.states, other.states)
            assert (one.inputs is None) == (other.inputs is None)
            if other.inputs is not None:
                np.testing.assert_array_equal(one.inputs, other.inputs)
            if other.weights is not None:
                np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_none_is_refused_in_a_sentence(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    if FORMATS.get(suffix).folder:
        path.mkdir()
        (path / "readme.txt").write_text("nothing")
    else:
        path.write_bytes(b"\x00\x01 nothing of the kind")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["table", "variables"])
def test_a_format_of_another_package(tmp_path, kind):
    import pandas as pd
    import xarray as xr

    def read_text(path):
        values = np.loadtxt(path)
        if kind == "table":
            return pd.DataFrame(values, columns=["time", "a", "b"])
        return xr.Dataset({"a": ("time", values[:, 1]), "b": ("time", values[:, 2])}, {"time": values[:, 0]})

    def write_text(path, dataset):
        one = dataset.series[0]
        np.savetxt(path, np.column_stack([dataset.times(0), one.rows(0, len(one))]))

    FORMATS.register(".rows", Format("rows", read_text, write_text))
    data = Dataset((Series(np.random.default_rng(0).standard_normal((9, 2)).cumsum(axis=0)),), 0.5, ("a", "b"))
    write(tmp_path / "a.rows", data)
    found = read(tmp_path / "a.rows")
    assert (found.names, found.dt) == (("a", "b"), 0.5)
    np.testing.assert_array_equal(found.series[0].states, data.series[0].states)
    (tmp_path / "b.rows").write_text("no numbers")
    with pytest.raises(InputError, match="not rows data"):
        read(tmp_path / "b.rows")
