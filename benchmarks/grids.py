"""A dense map against a convolution on small grids: which of the two a fit would take, by held-out rollouts.

python -m benchmarks.grids                  # the paper's fields and others from random starts, about 3 CPU minutes
python -m benchmarks.grids burgers-48 ks-64 # some of them
python -m benchmarks.grids --fit ks-64      # the whole fit by the default recipe, networks and all
"""

import argparse
import time
from collections.abc import Iterator

from benchmarks.forecast.data import problem_of
from lln.cli.simulate import trajectories
from lln.data.series import Dataset
from lln.fit.fields.recipe import FieldFitting, FieldOptions
from lln.fit.learn import contest, learn
from lln.fit.options import Recipe
from lln.systems.presets import FIELD_PRESETS

PAPER = ("burgers-32", "burgers-48", "advecdiff-32", "advecdiff-48", "reactiondiff-32", "reactiondiff-48")
RANDOM = ("diffusion-128", "burgers-1d-128", "kdv-128", "ks-64", "fisher-kpp-128", "wave-128")
STARTS = 8


def cases(wanted: list[str]) -> Iterator[tuple[str, str, Dataset]]:
    """What is learned from: how often it starts, its name, the data."""
    for name in PAPER:
        if not wanted or name in wanted:
            yield name, "one trajectory", problem_of("split", name).dataset
            yield name, "4 near starts", problem_of("trajectories", name).dataset
    for name in RANDOM:
        if not wanted or name in wanted:
            system = FIELD_PRESETS[name]
            yield name, f"{STARTS} random starts", trajectories(system, system.steps, system.burn_in, [*range(STARTS)])


def main() -> None:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join((*PAPER, *RANDOM)))
    parser.add_argument("--fit", action="store_true", help="fit as a whole and print what it says")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in (*PAPER, *RANDOM)]
    if unknown:
        parser.error(f"no field is called {unknown[0]!r}; take some of {', '.join((*PAPER, *RANDOM))}")
    words = {True: "shared", False: "dense", None: "networks tell"}
    print("| field | data | dense map | convolution | taken | CPU seconds |\n|---|---|---|---|---|---|")
    for name, data, dataset in cases(chosen.names):
        began = time.process_time()
        if chosen.fit:
            report = learn(dataset, Recipe()).report
            print(name, data, f"{time.process_time() - began:.0f} s", *report.notes, report.held_out_nmse, sep="\n  ")
            continue
        fitting = FieldFitting(dataset, Recipe(), FieldOptions(), lambda _: None)
        found = contest(dataset, Recipe(), fitting)
        row = (name, data, f"{found.dense:.1e}", f"{found.shared:.1e}", words[found.points_share])
        print("|", " | ".join(row), f"| {time.process_time() - began:.0f} |", flush=True)


if __name__ == "__main__":
    main()
