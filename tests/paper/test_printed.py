from decimal import Decimal

import pytest

from lln import InputError
from lln.models import COMPARATORS, MODELS
from lln.paper.printed_values import (
    SYSTEMS,
    AblationRow,
    AllDepthsRow,
    Deployment,
    ablation,
    all_depths,
    case_errors,
    case_statements,
    deployments,
    depth40,
    gradient_transport,
    multi_trajectory,
    parse_rows,
    ratio_rows,
)
from lln.systems import PRESETS


def test_every_table_covers_the_ten_systems_in_order():
    names = list(PRESETS)
    assert [row.system for row in depth40()] == names
    assert [row.system for row in deployments()] == names
    expected = [(depth, name) for depth in (5, 10, 20, 40) for name in names]
    assert [(row.depth, row.system) for row in all_depths()] == expected
    assert [(row.depth, row.system) for row in ratio_rows()] == expected


def test_printed_digits_are_kept():
    first = all_depths()[0]
    assert str(first.lens.deviation) == "2.160"
    assert first.residual.mean == Decimal("Infinity")
    spring = all_depths()[23]
    assert (spring.depth, spring.system, spring.mlp.deviation) == (20, "springchain-48", Decimal("4.81e-4"))
    assert str(depth40()[6].parameter_ratio_percent) == "22.1"
    assert list(first.scores()) == list(MODELS)


def test_decimals_of_every_column():
    for row in all_depths():
        for value in (row.mse_ratio, row.parameter_ratio, row.flop_ratio, row.lens.mean):
            assert value.as_tuple().exponent == -3
    for main in depth40():
        assert main.mse_ratio.as_tuple().exponent == -3
        assert main.parameter_ratio_percent.as_tuple().exponent == main.flop_ratio_percent.as_tuple().exponent == -1


def test_the_two_tables_tell_the_same_at_depth_40():
    deep = {row.system: row for row in all_depths() if row.depth == 40}
    for main in depth40():
        row = deep[main.system]
        assert main.lens == row.lens
        assert main.comparator_mse.mean == row.scores()[main.comparator].mean
        assert main.mse_ratio == row.mse_ratio
        assert abs(main.parameter_ratio_percent / 100 - row.parameter_ratio) <= Decimal("0.0005")
        assert abs(main.flop_ratio_percent / 100 - row.flop_ratio) <= Decimal("0.0005")


def test_the_printed_mse_ratio_is_the_quotient_of_the_printed_means():
    for row, inputs in zip(all_depths(), ratio_rows(), strict=True):
        lens, other = row.lens.mean, row.scores()[inputs.comparator].mean
        # Each printed mean is off by up to half a unit of its third decimal, the ratio as well.
        half = Decimal("0.0005")
        assert (lens - half) / (other + half) - half <= row.mse_ratio <= (lens + half) / (other - half) + half


def test_comparators_are_the_lowest_printed_ones():
    ties = []
    for row, inputs in zip(all_depths(), ratio_rows(), strict=True):
        scores = {name: row.scores()[name].mean for name in COMPARATORS}
        best = [name for name, mean in scores.items() if mean == min(scores.values())]
        assert inputs.comparator in best
        if len(best) > 1:
            ties.append((row.depth, row.system, inputs.comparator))
    assert ties == [(10, "advecdiff-32", "scaled-residual")]


def test_depth_40_inputs_are_the_printed_deployments():
    deep = {row.system: row for row in ratio_rows() if row.depth == 40}
    for deployed in deployments():
        assert (deep[deployed.system].width, deep[deployed.system].basis) == (deployed.width, deployed.basis)
    assert [row.comparator for row in depth40()] == [deep[row.system].comparator for row in depth40()]


ROW = '[[row]]\nsystem = "a"\nhorizon = 1.0\nwidth = 4\nbasis = 2\nlens_scale = 1.0\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ROW.replace("width", "widht"),
            r"t\.toml, row 1: .*width Field required .*widht Extra inputs are not",
        ),
        (ROW + "colour = 3\n", r"t\.toml, row 1: .*colour Extra inputs are not permitted"),
        (ROW + ROW.replace("basis = 2\n", ""), r"t\.toml, row 2: .*basis Field required"),
        (ROW.replace("width = 4", 'width = "4"'), r"t\.toml, row 1: .*width Input should be a valid integer"),
        (ROW.replace("1.0", "nan"), r"t\.toml, row 1: .*horizon Input should be a finite number"),
        ("[[rows]]\n", r"t\.toml: holds \['rows'\]; write each row as \[\[row\]\]"),
        ("", r"t\.toml: holds \[\]; write each row"),
        ("[[row]\n", r"t\.toml: Expected"),
    ],
)
def test_errors_name_file_row_and_key(text, message):
    with pytest.raises(InputError, match=message):
        parse_rows(text, Deployment, "t.toml")


def test_a_score_is_a_pair_or_infinity():
    good = (
        '[[row]]\ndepth = 5\nsystem = "a"\nlens = [1.0, 0.1]\nmlp = inf\nresidual = inf\nscaled-residual = inf\n'
        "residual-batchnorm = inf\nlayerscale = inf\nmse_ratio = 1.0\nparameter_ratio = 1.0\nflop_ratio = 1.0\n"
    )
    assert parse_rows(good, AllDepthsRow, "t.toml")[0].lens.mean == 1
    for bad in ("[1.0]", "1.0", '"inf"', "[1.0, 2.0, 3.0]"):
        with pytest.raises(InputError, match=r"t\.toml, row 1: .*mlp .*must be \[mean, deviation\] or inf"):
            parse_rows(good.replace("mlp = inf", f"mlp = {bad}", 1), AllDepthsRow, "t.toml")


def test_the_other_tables_cover_the_ten_systems_in_order():
    for table in (gradient_transport(), ablation(), multi_trajectory()):
        assert [row.system for row in table] == list(PRESETS)
    assert tuple(PRESETS) == SYSTEMS


def test_divergent_ablation_means_have_no_deviation():
    lorenz = ablation()[1].scores()
    assert (lorenz["zero-angle"].mean, lorenz["zero-angle"].deviation) == (Decimal("5.6e10"), None)
    assert ablation()[0].no_propagation.mean == Decimal("Infinity")
    assert sum(score.deviation is None for row in ablation() for score in row.scores().values()) == 6
    row = '[[row]]\nsystem = "a"\nfull = 3.0\nno-lens = inf\nzero-angle = inf\nno-propagation = inf\n'
    with pytest.raises(InputError, match=r"must be \[mean, deviation\] or inf"):
        parse_rows(row, AblationRow, "t.toml")


def test_the_printed_trajectory_ratio_is_the_quotient_of_the_printed_means():
    for row in multi_trajectory():
        halves = [Decimal(5).scaleb(value.as_tuple().exponent - 1) for value in (row.lens, row.comparator_mse)]
        low = (row.lens - halves[0]) / (row.comparator_mse + halves[1])
        high = (row.lens + halves[0]) / (row.comparator_mse - halves[1])
        half = Decimal(5).scaleb(row.mse_ratio.as_tuple().exponent - 1)
        assert low - half <= row.mse_ratio <= high + half
        assert row.interval[0] < row.mse_ratio < row.interval[1]


def test_the_case_study_tells_one_story():
    errors, statements = case_errors(), case_statements()
    assert [row.rank for row in errors] == list(range(statements.errors))
    assert statements.errors + statements.correct == 400
    confidence = [row.confidence for row in errors]
    assert confidence == sorted(confidence)
    assert sorted(row.largest_turn for row in errors)[3] == statements.error_turn
    assert all(row.true_class != row.predicted_class for row in errors)
