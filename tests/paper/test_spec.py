import pytest

from lln.core.errors import InputError
from lln.paper.spec import load_study, paper_studies, parse_study

GOOD = """
block = "X"
title = "a study"
systems = ["lorenz-28"]
seeds = [0, 1]

[data]
pairs = 100

[recipes.lens]
epochs = 2

[[runs]]
role = "row"
model = "lens"
depth = [5, 10]
"""


def test_the_papers_studies_are_whole():
    studies = paper_studies()
    assert set(studies) == {"R0", "SC-C", "L28-C", "ABL", "MT", "C0", "G0", "AS", "HP", "CS"}
    rollouts = [*studies["R0"].systems, *studies["SC-C"].systems, *studies["L28-C"].systems]
    assert len(rollouts) == len(set(rollouts)) == 10
    assert studies["R0"].seeds == studies["ABL"].seeds == studies["G0"].seeds == tuple(range(10))
    assert studies["MT"].seeds == (11, 12, 13, 14, 15, 16)
    assert studies["C0"].seeds == (0, 1, 2)
    assert studies["C0"].confirm.seeds == (3, 4, 5, 6, 7, 8, 9)
    assert paper_studies("smoke")


def test_a_value_alone_is_a_list_of_one():
    study = parse_study(GOOD, "x.toml")
    assert study.runs[0].model == ("lens",)
    assert study.runs[0].depth == (5, 10)
    assert study.data.burn_in == 500


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds = [0, 1]", "sedes = [0, 1]", ["unknown key 'sedes'", "did you mean 'seeds'"]),
        ("pairs = 100", "pair = 100", ["unknown key 'data.pair'", "did you mean 'pairs'"]),
        ("depth = [5, 10]", "dpeth = [5, 10]", ["unknown key 'runs.0.dpeth'", "did you mean 'depth'"]),
        ("epochs = 2", "epoch = 2", ["unknown key 'recipes.lens.epoch'", "did you mean 'epochs'"]),
        ("epochs = 2", "epochs = 0", ["recipes.lens", "epochs", "greater than or equal to 1"]),
        ("epochs = 2", "epochs = 2\nseed = 3", ["unknown key 'recipes.lens.seed'"]),
        ('"lorenz-28"', '"lorenz-82"', ["systems: unknown system 'lorenz-82'", "did you mean 'lorenz-28'"]),
        ('"lens"', '"lense"', ["runs.0.model: unknown model 'lense'", "did you mean 'lens'"]),
        ("[0, 1]", '"zero"', ["seeds: must be an integer of at least 0, got 'zero'"]),
        ("[0, 1]", "[0, 0]", ["seeds", "twice"]),
        ("[0, 1]", "[]", ["seeds", "at least one"]),
        ("[5, 10]", "[5, 10.0]", ["runs.0.depth: must be an integer of at least 1, got 10.0"]),
        ("[5, 10]", "0", ["runs.0.depth: must be an integer of at least 1, got 0"]),
        ("pairs = 100", "pairs = 1", ["data.pairs: must be greater than or equal to 2, got 1"]),
        ("pairs = 100", 'pairs = "many"', ["data.pairs", "must be a valid integer, got 'many'"]),
        ("depth = [5, 10]", "horizon = nan", ["runs.0.horizon", "finite"]),
        ("depth = [5, 10]", 'width = "rwo"', ["runs.0.width", "'rwo'", "did you mean 'row'"]),
        (
            "depth = [5, 10]",
            'width = "row"\ndepth = 7',
            ["runs.0.depth", "no row of lorenz-28 at depth 7", "5, 10, 20, 40"],
        ),
        ("depth = [5, 10]", 'recipe = "lnes"', ["runs.0.recipe: unknown recipe 'lnes'", "did you mean 'lens'"]),
        ('"lens"\n', '"mlp"\n', ["runs.0", "no [recipes.comparator]"]),
        ('"lens"\n', '"mlp"\nbasis = 3\n', ["runs.0", "'basis' belongs to the lens network"]),
        ('title = "a study"', "", ["the key 'title' is missing"]),
        ('title = "a study"', 'title = "a study"\nkind = "rolout"', ["kind", "'rollout'", "got 'rolout'"]),
        ('title = "a study"', 'title = "a study"\nkind = "multi-trajectory"', ["needs data.train"]),
        ('title = "a study"', 'title = "a study', ["not valid TOML"]),
    ],
)
def test_a_broken_file_names_file_key_and_expectation(old, new, words):
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        parse_study(GOOD.replace(old, new), "x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "one.toml").write_text(GOOD)
    assert load_study(tmp_path / "one.toml").block == "X"


@pytest.mark.parametrize("text", ["x = " + "[" * 5000, "x = " + "9" * 5000, "x = {" * 3000])
def test_toml_that_its_own_parser_gives_up_on(text):
    with pytest.raises(InputError, match=r"a\.toml: not valid TOML: ") as caught:
        parse_study(text, "a.toml")
    assert len(str(caught.value)) < 300


def test_a_study_of_more_runs_than_anyone_means_is_counted_before_it_is_expanded():
    many = list(range(1, 1501))
    text = (
        'block = "TINY"\ntitle = "t"\nsystems = ["lorenz-24"]\nseeds = [0]\n[recipes.lens]\nepochs = 1\n'
        f'learning_rate = 1e-3\n[[runs]]\nrole = "row"\nmodel = "lens"\n'
        f"depth = {many}\nwidth = {many}\nbasis = {many}\n"
    )
    with pytest.raises(InputError, match=r"3,375,000,000 combinations, and a study has at most 100,000"):
        parse_study(text, "bomb.toml")
