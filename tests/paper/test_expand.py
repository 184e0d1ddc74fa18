from lln.paper.expand import expand, selected_comparator, shortened
from lln.paper.printed_values import deployments, ratio_rows
from lln.paper.spec import paper_studies, parse_study

STUDIES = paper_studies()


def runs(block):
    return expand(STUDIES[block])


def lens(block, system, depth):
    return [
        run.content
        for run in runs(block)
        if run.content["model"] == "lens"
        and (run.content["system"], run.content["options"]["depth"]) == (system, depth)
    ]


GRID = [1.0, 2.0, 3.0, 4.0]
HORIZONS = dict.fromkeys(("grid", "burgers", "advecdiff", "reactiondiff"), GRID) | {
    "springchain": [0.25, 0.5, 1.0, 2.0],
    "lorenz": [0.5],
}


def test_the_rollout_blocks_cover_every_row_of_the_all_depth_table():
    contents = [run.content for block in ("R0", "SC-C", "L28-C") for run in runs(block)]
    for row in ratio_rows():
        here = [c for c in contents if c["system"] == row.system and c["options"].get("depth") == row.depth]
        networks = [c for c in here if c["model"] != "lens"]
        assert sorted(c["model"] for c in networks) == [
            "layerscale",
            "mlp",
            "residual",
            "residual-batchnorm",
            "scaled-residual",
        ]
        assert {c["options"]["width"] for c in networks} == {128}
        lenses = [c["options"] for c in here if c["model"] == "lens"]
        assert {(o["width"], o["basis"]) for o in lenses} == {(row.width, row.basis)}
        horizons = sorted(o["horizon"] for o in lenses)
        if row.depth < 40:
            assert horizons == HORIZONS[row.system.partition("-")[0] if row.system != "lorenz-24" else "grid"]
        else:
            deployed = next(d for d in deployments() if d.system == row.system)
            assert horizons == [float(deployed.horizon)]
            assert lenses[0]["lens_scale"] == float(deployed.lens_scale)


def test_recipes_are_the_protocols():
    (reaction,) = lens("R0", "reactiondiff-32", 40)
    assert reaction["recipe"] == {
        "epochs": 6,
        "batch_size": 1024,
        "learning_rate": 1e-3,
        "optimizer": "adam",
        "weight_decay": 0.0,
        "clip": None,
        "schedule": "constant",
    }
    network = next(run.content for run in runs("R0") if run.content["model"] == "mlp")
    assert (network["recipe"]["learning_rate"], network["recipe"]["weight_decay"], network["recipe"]["clip"]) == (
        3e-4,
        1e-6,
        1.0,
    )
    assert next(c for c in lens("ABL", "lorenz-28", 40))["recipe"]["epochs"] == 6
    for block in ("L28-C", "MT", "AS", "HP"):
        recipes = {
            (c["recipe"]["epochs"], c["recipe"]["optimizer"], c["recipe"]["schedule"])
            for c in (run.content for run in runs(block))
            if c["system"] == "lorenz-28" and c["recipe"] is not None
        }
        assert recipes == {(20, "adamw", "cosine-to-tenth")}


def test_lens_scales_below_depth_40():
    assert {c["options"]["lens_scale"] for c in lens("L28-C", "lorenz-28", 5)} == {0.075}
    assert {c["options"]["lens_scale"] for c in lens("SC-C", "springchain-32", 5)} == {1.0}
    assert {c["options"]["lens_scale"] for c in lens("SC-C", "springchain-32", 40)} == {1.25}


def test_every_run_is_there_once_and_blocks_share_what_is_equal():
    digests = {block: [run.digest for run in runs(block)] for block in STUDIES if block != "CS"}
    assert {block: len(found) for block, found in digests.items()} == {
        "R0": 7 * (5 * 4 + 4 * 3 + 1 + 2),
        "SC-C": 2 * (5 * 4 + 4 * 3 + 1 + 2),
        "L28-C": 5 * 4 + 3 + 1 + 2,
        "ABL": 40,
        "MT": 40,
        "C0": 4 * (4 * 4 + 5),
        "G0": 40,
        "AS": 4 * 36,
        "HP": 4 * (6 + 5 + 2),
    }
    assert all(len(found) == len(set(found)) for block, found in digests.items() if block != "HP")
    rows = {*digests["R0"], *digests["SC-C"], *digests["L28-C"]}
    full = {run.digest for run in runs("ABL") if run.role == "full"}
    assert len(full) == 10
    assert len(full - rows) == 1  # Lorenz-28, which the ablation trains by the recipe of R0
    assert not rows & {run.digest for run in runs("ABL") if run.role != "full"}


def test_an_ablation_changes_one_thing():
    variants = {run.role: run.content["options"] for run in runs("ABL") if run.content["system"] == "springchain-32"}
    full = variants["full"]
    assert variants["no-lens"] == {**full, "lens_scale": 0.0}
    assert variants["zero-angle"] == {**full, "initial_angle": "zero"}
    assert variants["no-propagation"] == {**full, "propagation": 0.0}


def test_the_confirmation_takes_the_papers_comparators():
    chosen = {run.content["system"]: run.content["model"] for run in runs("MT") if run.role == "comparator"}
    assert chosen == {row.system: row.comparator for row in ratio_rows() if row.depth == 40}
    assert selected_comparator("lorenz-24", 5) == "scaled-residual"


def test_the_grouping_of_seeds_is_part_of_the_identity():
    text = """
        block = "X"
        title = "x"
        systems = "lorenz-24"
        seeds = {seeds}
        [recipes.lens]
        [[runs]]
        role = "row"
        model = "lens"
    """
    digests = {expand(parse_study(text.format(seeds=seeds), "x"))[0].digest for seeds in ("[0]", "[0, 1]", "[1, 0]")}
    assert len(digests) == 3


def test_quick_keeps_the_shapes():
    for block, study in STUDIES.items():
        long, short = expand(study), expand(shortened(study))
        assert [run.role for run in long] == [run.role for run in short], block
        for one, other in zip(long, short, strict=True):
            assert one.content.get("options") == other.content.get("options")
            assert one.content.get("system") == other.content.get("system")
            assert one.digest != other.digest
        assert sum(run.cost for run in short) <= sum(run.cost for run in long)
