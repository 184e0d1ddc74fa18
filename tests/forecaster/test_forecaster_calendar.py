"""Models of calendar steps: forecasts carry the dates that follow the data."""

import numpy as np
import pandas as pd
import pytest

import lln
from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read.formats import write

QUICK = {"members": 1, "epochs": 1, "history": 1, "width": 8, "depth": 2, "basis": 6}


def table(alias, rows=60):
    index = pd.date_range("2015-01-01", periods=rows, freq=alias)
    phase = np.arange(rows) * np.pi / 6
    return pd.DataFrame({"a": np.sin(phase), "b": np.cos(phase)}, index=index)


@pytest.fixture(scope="module", params=["MS", "QE", "B"])
def fitted(request):
    return table(request.param), lln.LensForecaster(**QUICK).fit(table(request.param))


def test_forecasts_continue_on_the_calendar(fitted, tmp_path):
    data, model = fitted
    expected = pd.date_range(data.index[-1], periods=6, freq=data.index.freq)
    np.testing.assert_array_equal(model.rollout(steps=5).to_pandas().index, expected)
    from_table = model.rollout(data.iloc[-1:], steps=5).states
    np.testing.assert_array_equal(from_table.index, expected)
    model.save(tmp_path / "m.lln")
    again = lln.load(tmp_path / "m.lln")
    assert again.layout_.frequency == model.layout_.frequency == as_dataset(data).frequency
    np.testing.assert_array_equal(again.rollout(steps=5).to_pandas().index, expected)


def test_data_of_another_calendar_are_refused(fitted):
    data, model = fitted
    with pytest.raises(InputError, match="steps of the calendar"):
        model.evaluate(table("YE" if data.index.freqstr != "YE" else "MS"))
    assert model.layout_.read(data.iloc[:1]).frequency == model.layout_.frequency


def test_known_inputs_from_a_file_of_inputs_alone(tmp_path):
    data = table("MS")
    model = lln.LensForecaster(**QUICK).fit(data, inputs=["b"])
    future = pd.date_range(data.index[-1], periods=8, freq="MS")
    known = pd.DataFrame({"b": np.linspace(0, 1, 8), "remark": "planned"}, index=future)
    known.to_csv(tmp_path / "known.csv", index_label="date")
    found = model.rollout(steps=6, inputs=tmp_path / "known.csv")
    np.testing.assert_array_equal(found.array, model.rollout(steps=6, inputs=known[["b"]].iloc[:6]).array)
    with pytest.raises(InputError, match="holds 8 rows of inputs, but 9 steps need one each"):
        model.rollout(steps=9, inputs=str(tmp_path / "known.csv"))
    write(tmp_path / "known.nc", as_dataset(known[["b"]]))
    np.testing.assert_array_equal(model.rollout(steps=6, inputs=tmp_path / "known.nc").array, found.array)
