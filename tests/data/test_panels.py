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


def test_a_column_of_text_makes_no_series_of_one_that_is_out_of_order():
    table = panel(("only",)).assign(weather=["rain", "sun", "fog"] * 10)
    assert as_dataset(table.sample(frac=1, random_state=0)).lengths == (30,)
    twice = table.iloc[[*range(10), 9, *range(10, 30)]].assign(weather=["rain", "sun"] * 15 + ["rain"])
    with pytest.raises(InputError, match="have the same time 2020-01-10"):
        as_dataset(twice)
    below = pd.concat([panel(("north",)), panel(("south",), times=DAYS - pd.Timedelta("50D"))])
    assert as_dataset(below).lengths == (30, 30)


def test_months_are_no_labels_of_years():
    months = pd.date_range("2000-01-01", periods=120, freq="MS")
    table = pd.DataFrame({"year": months.year, "month": months.strftime("%b"), "sales": np.arange(120.0)})
    assert as_dataset(table).lengths == (120,)


def test_days_of_several_series_in_a_zone_keep_their_dates():
    table = panel(times=pd.date_range("2024-03-15", periods=30, tz="Europe/Berlin"))  # clocks are set on the 31st
    found = as_dataset(table)
    assert (found.lengths, found.dt) == ((30, 30, 30), 86400.0)


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


def test_cells_that_cannot_be_compared_label_nothing():
    table = panel().assign(store=[[1]] * 90).sort_values("date")
    with pytest.raises(InputError, match="have the same time"):
        as_dataset(table)


def test_labels_may_be_the_index():
    table = panel().assign(sales=1.0)  # rows of several series may be alike
    table["sales"] = np.tile(np.random.default_rng(0).normal(size=30), 3)
    assert as_dataset(table.set_index("store")).lengths == (30, 30, 30)


def test_years_that_the_caller_names_are_dates_too():
    table = panel(("only",), time="year", times=np.arange(1990, 2020))
    assert as_dataset(table, time="year").frequency == "YS"
    ancient = panel(("only",), time="year", times=np.arange(1000, 1030))
    assert as_dataset(ancient, time="year").dt == 1.0


@pytest.mark.parametrize("form", ["%b", "%B"])
def test_a_row_of_months_for_each_year_is_one_series(tmp_path, form):
    values = np.round(np.random.default_rng(0).normal(size=120), 3)
    months = pd.date_range("2001-01-01", periods=12, freq="MS").strftime(form)
    table = pd.DataFrame(values.reshape(10, 12), columns=months)
    table.insert(0, "Year", range(1990, 2000))
    table.iloc[-1, -2:] = np.nan
    table.iloc[3, 5] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    for found in (as_dataset(table), as_dataset(tmp_path / "a.csv")):
        assert (found.names, found.lengths, found.frequency) == (("value",), (118,), "MS")
        np.testing.assert_array_equal(np.delete(found.series[0].states[:, 0], 40), np.delete(values[:118], 40))
        assert np.isnan(found.series[0].states[40, 0])
        assert found.units["time"] == "months since 1990-01-01T00:00:00"
    assert as_dataset(table, time="Year").names == tuple(months)


def test_labels_may_be_categories():
    found = as_dataset(panel().astype({"store": "category"}).sort_values("date"))
    assert found.lengths == (30, 30, 30)
    numbers = panel(("only",)).assign(kind=pd.Categorical(["1,5", "2,5", "3,5"] * 10))
    assert set(as_dataset(numbers).series[0].states[:, -1]) == {1.5, 2.5, 3.5}
