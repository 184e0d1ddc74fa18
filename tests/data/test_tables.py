import numpy as np
import pandas as pd
import pytest
import xarray as xr

from lln.core.errors import InputError
from lln.data import as_dataset
from lln.data.read.formats import read


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


@pytest.mark.parametrize("kind", [complex, object])
def test_a_complex_column_is_refused_and_loses_no_imaginary_part(kind):
    table = columns().assign(z=(np.arange(40) + 1j).astype(kind))
    with pytest.raises(InputError, match="column 'z' is complex; give real and imaginary parts"):
        as_dataset(table)


def test_objects_that_are_dates_are_time():
    table = columns(5).assign(when=pd.date_range("2020-01-01", periods=5, freq="h")).astype(object)
    assert as_dataset(table).dt == 3600.0


@pytest.mark.parametrize("cell", ["32.01.2024", "1/1/2024 0:00 h", "00:00:05"])
def test_text_that_is_no_date_gets_told_how_dates_are_written(tmp_path, cell):
    said = (
        f"row 2, column 'time': '{cell}' is not a time; write dates as 2024-01-31 or 2024-01-31T12:00:00, or times as"
    )
    with pytest.raises(InputError, match=said) as caught:
        csv(tmp_path, f"time,x\n{cell},1\n{cell},2\n{cell},4\n")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="row 3, column 'time': 'soon' is not a time"):
        csv(tmp_path, "time,x\n2024-01-01,1\nsoon,2\n2024-01-03,4\n")


@pytest.mark.parametrize("name", ["T", "t", "T (°C)", "t [degC]", "T  K"])
def test_a_temperature_is_a_state(tmp_path, name):
    table = columns().rename(columns={"x": name, "y": "p"})
    found = csv(tmp_path, table.sort_values(name) if len(name) > 1 else table)
    assert (found.names, found.dt, found.lengths) == ((name, "p"), 1.0, (40,))
    timed = csv(tmp_path, table.assign(time=0.5 * np.arange(40)))
    assert (timed.names, timed.dt) == ((name, "p"), 0.5)
    days = as_dataset(table.set_axis(pd.date_range("2020-01-01", periods=40)))
    assert (days.names, days.dt) == ((name, "p"), 86400.0)
    assert any(f"column '{name}' is taken as a temperature, not as time" in note for note in days.notes)
    if len(name) > 1:
        ramp = csv(tmp_path, table.assign(**{name: np.arange(40.0)}))
        assert (ramp.names, ramp.dt) == ((name, "p"), 1.0)


def test_a_t_that_rises_or_begins_again_is_time(tmp_path):
    with pytest.raises(InputError, match=r"unevenly sampled, .* in column 'T'; .* or if 'T' is a state"):
        csv(tmp_path, columns().rename(columns={"x": "T"}).sort_values("T"))
    assert csv(tmp_path, columns().assign(T=np.tile(np.arange(20), 2))).lengths == (20, 20)
    assert csv(tmp_path, columns().assign(t=np.tile(np.arange(4), 10))).lengths == (4,) * 10
    turned = csv(tmp_path, columns().assign(t=np.arange(40)[::-1]))
    np.testing.assert_array_equal(turned.series[0].states[:, 0], columns()["x"][::-1])
    found = csv(tmp_path, columns().rename(columns={"x": "T", "y": "p"}), states=["T", "p"])
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
    assert csv(tmp_path, ",time,x\n2,0,5\n3,1,7\n4,2,1\n").names == ("index", "x")


def runs(names=("run", "time"), times=None):
    """Three runs of 100 rows at a step of 0.1, in an index of two levels."""
    times = 0.1 * np.arange(100) if times is None else times
    table = columns(300)
    table.index = pd.MultiIndex.from_product([range(3), times], names=names)
    return table


@pytest.mark.parametrize("names", [("run", "time"), ("start", "time"), ("seed", "t"), (None, None), ("time", "run")])
def test_levels_of_the_index_are_time_and_trajectories(names):
    table = runs() if names != ("time", "run") else runs().swaplevel()
    table.index.names = names
    found = as_dataset(table)
    assert (found.names, found.dt, found.lengths) == (("x", "y"), 0.1, (100,) * 3)
    np.testing.assert_array_equal(found.series[1].states, table.to_numpy()[100:200])
    said = "tell trajectories apart, and"
    assert [said in note for note in found.notes] == ([True] if names in (("seed", "t"), (None, None)) else [])


def test_levels_may_be_named_by_the_caller_and_clash_with_no_column():
    table = runs(("seed", "clock"))
    assert as_dataset(table, trajectory="seed", time="clock").lengths == (100,) * 3
    assert [one.name for one in as_dataset(table, time="clock").series][1:] == ["frame, seed 1", "frame, seed 2"]
    assert as_dataset(table, trajectory="seed", states=["x"]).lengths == (100,) * 3
    appended = columns().assign(run=np.repeat([1, 2], 20)).set_index("run", append=True)
    assert as_dataset(appended).lengths == (20, 20)
    texts = appended.set_axis(pd.MultiIndex.from_product([[1, 2], list("abcdefghijklmnopqrst")], names=["run", "what"]))
    assert as_dataset(texts).lengths == (20, 20)
    assert "the levels of the index 'what' are left out" in as_dataset(texts).notes[0]
    deep = pd.concat({"a": table, "b": table}, names=["kind"])
    assert as_dataset(deep).lengths == (100,) * 6
    assert as_dataset(table.assign(clock=table.index.get_level_values(1))).lengths == (100,) * 3
    assert as_dataset(runs(("seed", "step"), np.arange(100)), dt=0.1).dt == 0.1
    with pytest.raises(InputError, match="two columns or levels of the index are called 'clock'; rename one"):
        as_dataset(table.assign(clock=1.0))


def test_a_rollout_from_several_starts_is_read_back_as_several_trajectories():
    dates = pd.date_range("2020-01-01", periods=100, freq="h")
    assert as_dataset(runs(("start", "time"), dates)).dt == 3600.0
    table = runs(("start", "time"))
    assert as_dataset(pd.concat([table, table], keys=[0, 1], names=["ensemble"])).lengths == (100,) * 6


@pytest.mark.parametrize(
    ("index", "dt"),
    [
        (pd.Index(np.arange(40) * 10, name="year"), 10.0),
        (pd.Index(np.arange(40) * 10), 10.0),
        (pd.Index(np.arange(40) * 0.25), 0.25),
        (pd.Index(np.arange(1990, 2030), name="year"), 1.0),
        (pd.period_range("2020-01-01", periods=40, freq="h"), 3600.0),
        (pd.period_range("2020-01", periods=40, freq="M"), 1.0),
        (pd.Index(pd.date_range("2020-01-01", periods=40).strftime("%Y-%m-%d")), 86400.0),
    ],
)
def test_an_index_of_numbers_periods_or_dates_is_time(index, dt):
    found = as_dataset(columns().set_axis(index))
    assert (found.names, found.dt, found.lengths) == (("x", "y"), dt, (40,))
    short = as_dataset(columns().set_axis(index).drop(index[[7, 20]]))
    assert short.dt == dt
    assert "2 missing times filled in as gaps" in short.notes[-1]
    clocked = columns().assign(time=0.5 * np.arange(40)).set_axis(index)
    assert as_dataset(clocked).dt == 0.5


def test_row_numbers_are_no_time_until_rows_were_dropped():
    table = columns(140)
    for part in (table, table.iloc[100:], table.iloc[::2], table.set_axis(pd.Index(np.arange(5, 145)))):
        found = as_dataset(part, dt=0.1)
        assert (found.dt, found.series[0].start, found.notes) == (0.1, 0.0, ())
    dropped = table.drop(index=[3, 50, 51])
    found = as_dataset(dropped)
    assert (found.dt, found.lengths) == (1.0, (140,))
    assert "the index is taken as time; reset_index(drop=True) leaves it out" in found.notes[0]
    assert (as_dataset(dropped, dt=0.1).dt, as_dataset(dropped, dt=0.1).lengths) == (0.1, (140,))
    assert as_dataset(dropped.iloc[4:40:2], dt=0.1).dt == 0.1
    even = table.iloc[[0, 1, 3, 4]].assign(x=[0.0, 0.5, 1.0, 1.5])
    assert (as_dataset(even).dt, as_dataset(even).names) == (0.5, ("y",))


def test_an_index_that_goes_back_or_repeats_is_refused_or_begins_again():
    table = columns().set_axis(pd.Index(np.arange(40) * 10, name="year"))
    mixed = as_dataset(table.iloc[[3, 0, 2, 1]])
    np.testing.assert_array_equal(mixed.series[0].states, table.iloc[:4])
    with pytest.raises(
        InputError, match=r"time goes back from 30 to 0 at row 1 in the index; sort the rows, or leave the index out"
    ):
        as_dataset(table.iloc[[3, 0, 1, 3]].assign(x=range(4)))
    with pytest.raises(InputError, match=r"rows 0 and 1 have the same time 0 in the index; drop one of them"):
        as_dataset(table.iloc[[0, *range(39)]].assign(x=range(40)))
    assert as_dataset(pd.concat([table, table])).lengths == (40, 40)
    several = pd.concat([table.assign(run=k) for k in range(2)]).sort_index()
    assert (as_dataset(several).lengths, as_dataset(several).dt) == ((40, 40), 10.0)


def test_other_indexes_are_trajectories_or_left_out_with_a_note():
    named = columns().set_axis(pd.Index(np.repeat([7, 5], 20), name="run"))
    assert as_dataset(named).lengths == (20, 20)
    labels = columns().set_axis(pd.Index([f"row {k}" for k in range(40)], name="label"))
    assert "the index 'label' is neither numbers nor dates and is left out" in as_dataset(labels).notes[0]
    stated = columns().set_index("x")
    assert as_dataset(stated, states=["x", "y"]).names == ("x", "y")


@pytest.mark.parametrize("word", ["states", "trajectory", "inputs", "time"])
def test_what_names_no_column_is_refused(word):
    with pytest.raises(InputError, match=rf"{word}= must name .*, got int"):
        as_dataset(pd.DataFrame({"time": [0.0, 1.0, 2.0], "a": [1.0, 2.0, 4.0]}), **{word: 3})
    with pytest.raises(InputError, match=rf"{word}= must name .*, got int"):
        as_dataset(xr.Dataset({"a": ("time", [1.0, 2.0, 4.0])}, {"time": [0.0, 1.0, 2.0]}), **{word: 3})


def test_names_may_be_the_columns_of_a_table():
    table = columns().assign(z=1.0)
    assert as_dataset(table, states=table.columns[:2]).names == ("x", "y")


def test_dates_that_repeat_go_back_or_are_uneven_are_said_as_dates():
    days = pd.date_range("2024-03-01", periods=6, freq="D")
    twice = pd.DataFrame({"day": [*days[:3], *days[2:5]], "x": range(6)})
    with pytest.raises(InputError, match=r"rows 2 and 3 have the same time 2024-03-03 in column 'day'"):
        as_dataset(twice)
    uneven = pd.DataFrame({"day": days[[0, 2, 5]], "x": range(3)})
    with pytest.raises(InputError, match=r"unevenly sampled, steps in time from 2 days to 3 days in column 'day'"):
        as_dataset(uneven)


@pytest.mark.parametrize(("later", "note"), [(0, "time goes back 1 time in"), (5000, "cut at 1 long hole in time")])
def test_one_jump_in_time_is_singular(later, note):
    times = np.r_[np.arange(20), np.arange(later, later + 20)]
    assert note in as_dataset(pd.DataFrame({"t": times, "x": np.sin(np.arange(40))})).notes[0]
