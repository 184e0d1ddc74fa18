import numpy as np
import pandas as pd
import pytest

from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.formats import read


def columns(rows=40, seed=0):
    """Two columns of numbers, neither of which only rises."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.standard_normal(rows), "y": rng.standard_normal(rows)})


def csv(tmp_path, table, **options):
    """What is read of the table, or the text, in a file."""
    path = tmp_path / "own.csv"
    path.write_text(table) if isinstance(table, str) else table.to_csv(path, index=False)
    return read(path, **options)


def test_a_column_called_weight_is_noted_and_a_state_where_it_is_named(tmp_path):
    table = columns().assign(weight=np.linspace(1.0, 2.0, 40))
    found = csv(tmp_path, table)
    assert found.names == ("x", "y")
    assert found.series[0].weights is not None
    assert "column 'weight' is taken as row weights; if it is a state, name the states" in found.notes[0]
    named = csv(tmp_path, table, states=["x", "weight"])
    assert (named.names, named.series[0].weights, named.notes) == (("x", "weight"), None, ())


@pytest.mark.parametrize("kind", [object, "Float64", "string"])
def test_numbers_of_another_dtype_are_numbers(kind):
    found = as_dataset(columns().assign(time=0.1 * np.arange(40)).astype(kind))
    assert (found.names, found.dt, found.lengths) == (("x", "y"), 0.1, (40,))
    unnamed = columns()
    unnamed.insert(0, "clock", 0.1 * np.arange(40))
    assert as_dataset(unnamed.astype(object)).dt == 0.1


def test_objects_that_are_dates_are_time():
    table = columns(5).assign(when=pd.date_range("2020-01-01", periods=5, freq="h")).astype(object)
    assert as_dataset(table).dt == 3600.0


@pytest.mark.parametrize("cell", ["01.01.2024", "1/1/2024 0:00", "00:00:05"])
def test_a_date_that_is_not_iso_gets_told_how_dates_are_written(tmp_path, cell):
    said = (
        f"row 2, column 'time': '{cell}' is not a time; write dates as 2024-01-31 or 2024-01-31T12:00:00, or times as"
    )
    with pytest.raises(InputError, match=said) as caught:
        csv(tmp_path, f"time,x\n{cell},1\n{cell},2\n{cell},4\n")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="row 3, column 'time': 'soon' is not a time"):
        csv(tmp_path, "time,x\n2024-01-01,1\nsoon,2\n2024-01-03,4\n")


def test_a_temperature_taken_for_time_is_named_and_may_be_a_state(tmp_path):
    table = columns().rename(columns={"x": "T", "y": "p"})
    back = table["T"].diff().lt(0).idxmax()
    said = rf"at row {back + 2} in column 'T'; sort the rows, or if 'T' is a state, name the states with --states"
    with pytest.raises(InputError, match=said):
        csv(tmp_path, table)
    with pytest.raises(InputError, match=rf"at row {back} in column 'T'; sort the rows, or if"):
        as_dataset(table)
    with pytest.raises(InputError, match=r"unevenly sampled, .* in column 'T'; .* or if 'T' is a state"):
        csv(tmp_path, table.sort_values("T"))
    found = csv(tmp_path, table, states=["T", "p"])
    assert (found.names, found.dt, found.lengths, found.notes) == (("T", "p"), 1.0, (40,), ())


def test_rows_of_a_trajectory_are_counted_in_the_table(tmp_path):
    text = "run,time,x\n1,0,1\n1,1,2\n1,2,4\n2,0,1\n2,1,3\n2,1,5\n"
    with pytest.raises(InputError, match=r"run 2: rows 6 and 7 have the same time 1 in column 'time'.*trajectory=\)$"):
        csv(tmp_path, text)


@pytest.mark.parametrize("timed", [True, False])
def test_row_numbers_as_pandas_writes_them_are_left_out(tmp_path, timed):
    table = columns()
    if timed:
        table.insert(0, "time", 0.1 * np.arange(40))
    table.to_csv(tmp_path / "a.csv")
    found = read(tmp_path / "a.csv")
    assert (found.names, found.dt, found.lengths) == (("x", "y"), 0.1 if timed else 1.0, (40,))
    assert found.notes[0].endswith("the first column has no name and counts the rows, so it is left out")
    pd.read_csv(tmp_path / "a.csv").to_csv(tmp_path / "b.csv")
    assert read(tmp_path / "b.csv").names == ("x", "y")
    assert read(tmp_path / "a.csv", states=["index", "x"]).names == ("index", "x")


def test_an_unnamed_first_column_that_does_not_count_rows_stays(tmp_path):
    assert csv(tmp_path, ",x,y\n0,1,2\n2,3,5\n4,1,7\n").dt == 2.0
    assert csv(tmp_path, ",time,x\n1,0,5\n2,1,7\n3,2,1\n").names == ("index", "x")
