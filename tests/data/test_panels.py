"""Tables with several series below each other, and rows that are out of order or there twice."""

import numpy as np
import pandas as pd
import pytest

from lln.core.errors import InputError
from lln.data import as_dataset

DAYS = pd.date_range("2020-01-01", periods=30)


def panel(labels=("north", "south", "west"), name="store", time="date", times=DAYS):
    rng = np.random.default_rng(0)
    parts = [pd.DataFrame({time: times, name: label, "sales": rng.normal(size=len(times))}) for label in labels]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("order", [[], ["date"], ["sales"]])
@pytest.mark.parametrize(("name", "labels"), [("store", ("north", "south")), ("store_id", (3, 1)), ("id", (0, 1))])
def test_a_column_of_labels_tells_series_apart(name, labels, order):
    table = panel(labels, name)
    found = as_dataset(table.sort_values(order) if order else table)
    assert (found.names, found.lengths, found.dt) == (("sales",), (30, 30), 86400.0)
    for one in found.series:
        label = next(label for label in labels if one.name.endswith(f" {label}"))
        np.testing.assert_array_equal(one.states[:, 0], table.loc[table[name] == label, "sales"])
    if name != "id":
        assert any(f"column {name!r} tells 2 trajectories apart" in note for note in found.notes)


def test_several_columns_of_labels_tell_series_apart_together():
    table = pd.concat([panel().assign(product=one) for one in ("tea", "milk")]).sort_values("date")
    found = as_dataset(table)
    assert found.lengths == (30,) * 6
    assert found.series[0].name == "frame, store, product north, tea"
    assert any("columns 'store' and 'product' tell 6 trajectories apart" in note for note in found.notes)


def test_years_of_several_countries_are_dates():
    found = as_dataset(panel(time="year", name="country", times=np.arange(1990, 2020)))
    assert (found.names, found.lengths, found.frequency) == (("sales",), (30, 30, 30), "YS")


def test_a_column_of_text_that_labels_no_series_is_left_out():
    weather = panel(("only",)).assign(store=["rain", "sun", "fog"] * 10)
    assert as_dataset(weather).lengths == (30,)
    twice = pd.concat([weather, weather]).assign(sales=np.arange(60.0))
    assert any("taken as new trajectories" in note for note in as_dataset(twice).notes)


def test_rows_of_dates_that_are_mixed_up_are_sorted():
    table = panel(("only",))
    found = as_dataset(table.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(found.series[0].states[:, 0], table["sales"])
    assert any("the rows are not in the order of time, so they are sorted" in note for note in found.notes)
    halves = as_dataset(pd.concat([table[15:], table[:15]]))
    np.testing.assert_array_equal(halves.series[0].states[:, 0], table["sales"])


def test_a_row_that_is_there_twice_is_left_out():
    table = panel(("only",))
    found = as_dataset(table.iloc[[*range(10), 9, *range(10, 30)]])
    np.testing.assert_array_equal(found.series[0].states[:, 0], table["sales"])
    assert any("rows that repeat another one in every column are left out" in note for note in found.notes)
    other = pd.concat([table[:10], table[9:10].assign(sales=7.0), table[10:]])
    with pytest.raises(InputError, match="have the same time 2020-01-10"):
        as_dataset(other)


def test_an_empty_column_is_left_out():
    found = as_dataset(panel(("only",)).assign(empty=np.nan, none=None))
    assert found.names == ("sales",)
    assert any("2 empty columns are left out ('empty', 'none')" in note for note in found.notes)
    with pytest.raises(InputError, match="column 'empty' holds no number at all"):
        as_dataset(panel(("only",)).assign(empty=np.nan), states=["sales", "empty"])
