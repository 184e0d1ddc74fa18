import numpy as np
import pandas as pd

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
