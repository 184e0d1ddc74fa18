"""Records made from the printed values themselves, so that a report on them must agree with print."""

import json
import math
from pathlib import Path

import numpy as np

from lln.paper.printed_values import (
    SYSTEMS,
    ablation,
    all_depths,
    deployments,
    depth40,
    gradient_transport,
    multi_trajectory,
)
from lln.paper.records import Entry, Record, RecordStore, Timing

DATA = {"burn_in": 500, "dtype": "float32", "pairs": 3000, "steps": 500}
CURVES = ("reactiondiff-48", "advecdiff-48", "burgers-48", "lorenz-24")
CASE = json.loads((Path(__file__).parent / "case_study.json").read_text())


def spread(mean, deviation, count):
    """`count` values with exactly this mean and sample deviation."""
    if deviation is None or not math.isfinite(mean):
        return [mean] * count
    shape = np.linspace(-1, 1, count)
    return list(mean + shape * deviation / shape.std(ddof=1))


class Writer:
    """Collects runs and writes them as a study would."""

    def __init__(self):
        self.records, self.blocks = {}, {}

    def add(self, block, role, spec, result):
        record = Record(spec, result)
        self.records[record.digest] = record
        self.blocks.setdefault(block, []).append(Entry(record.digest, role))

    def write(self, folder):
        with RecordStore(folder) as store:
            for record in self.records.values():
                store.add(record, Timing(record.digest, 1.5))
            store.set_blocks(self.blocks)
        return folder


def block_of(system):
    return {"springchain": "SC-C"}.get(system.partition("-")[0], "L28-C" if system == "lorenz-28" else "R0")


def rollout(system, model, mse, *, curve=None, **options):
    seeds = list(range(len(mse)))
    spec = {"kind": "rollout", "schema": 1, "system": system, "model": model, "options": options, "seeds": seeds}
    spec |= {"data": DATA, "curve": curve is not None}
    result = {"mse": mse, "parameters": 100, "diverged_at": [None] * len(mse), "loss": [0.1] * len(mse)}
    return spec, result | ({} if curve is None else {"curve": curve})


def lens_options(depth, **changed):
    base = {"depth": depth, "width": 64, "basis": 12, "horizon": 1.0, "lens_scale": 1.0}
    return base | {"initial_angle": "learned", "propagation": None} | changed


def add_rollouts(writer):
    for row in all_depths():
        block = block_of(row.system)
        for model, score in row.scores().items():
            mse = spread(float(score.mean), float(score.deviation), 10)
            options = lens_options(row.depth) if model == "lens" else {"depth": row.depth, "width": 128}
            writer.add(block, "row", *rollout(row.system, model, mse, **options))
            if model == "lens":
                worse = [2 * value for value in mse]
                writer.add(block, "row", *rollout(row.system, model, worse, **lens_options(row.depth, horizon=3.0)))
    for system in SYSTEMS:
        writer.add(block_of(system), "reference", *rollout(system, "training-mean", [1.5]))
        writer.add(block_of(system), "reference", *rollout(system, "linear", [2.5e-11]))


def add_ablation(writer):
    changes = {
        "full": {},
        "no-lens": {"lens_scale": 0.0},
        "zero-angle": {"initial_angle": "zero"},
        "no-propagation": {"propagation": 0.0},
    }
    for row in ablation():
        for role, score in row.scores().items():
            deviation = None if score.deviation is None else float(score.deviation)
            mse = spread(float(score.mean), deviation, 10)
            writer.add("ABL", role, *rollout(row.system, "lens", mse, **lens_options(40, width=99, **changes[role])))


def add_gradients(writer):
    for row in gradient_transport():
        for model, score in row.scores().items():
            first = spread(float(score.mean), float(score.deviation), 10)
            curves = [[value * (40 - layer) / 39 for layer in range(1, 41)] for value in first]
            spec = {"kind": "gradients", "schema": 1, "system": row.system, "model": model, "seeds": list(range(10))}
            writer.add("G0", "gradients", spec | {"options": {"depth": 40}}, {"log_ratios": curves})


def add_multi_trajectory(writer):
    chosen = {row.system: row.comparator for row in depth40()}
    for row in multi_trajectory():
        low, high = (math.log(float(value)) for value in row.interval)
        for role, mean in (("lens", row.lens), ("comparator", row.comparator_mse)):
            # Two standard errors of six seeds reach from the middle to an end of the interval.
            wobble = (high - low) / 4 * math.sqrt(6) if role == "lens" else 0.0
            logs = spread(math.log(float(mean)), wobble, 6)
            spec = {"kind": "multi-trajectory", "schema": 1, "system": row.system, "seeds": [11, 12, 13, 14, 15, 16]}
            spec |= {"model": "lens" if role == "lens" else chosen[row.system], "options": {"depth": 40}, "data": DATA}
            writer.add("MT", role, spec, {"mse": [[math.exp(value)] * 8 for value in logs]})
        for model in ("training-mean", "linear"):
            spec = {"kind": "multi-trajectory", "schema": 1, "system": row.system, "model": model, "seeds": [0]}
            writer.add("MT", "reference", spec | {"data": DATA}, {"mse": [[0.5] * 8]})


def add_profiles(writer):
    for system in CURVES:
        for model, level in (("lens", 0.1), ("mlp", 1.0)):
            curve = [[level * (1 + 0.1 * seed) * (1 + step / 100) for step in range(500)] for seed in range(7)]
            run = rollout(system, model, [level] * 7, curve=curve, depth=40, width=64)
            writer.add("C0", "confirmation", *run)
    for deployed in deployments()[1:4:2]:
        for depth in (5, 10, 20, 40):
            options = lens_options(depth, width=256)
            writer.add("AS", "factorial", *rollout(deployed.system, "lens", [1.0, 1.1, 1.2], **options))
        for key, values in (("lens_scale", (0.0, 1.0)), ("basis", (4, 12)), ("initial_angle", ("learned", "zero"))):
            for value in values:
                options = lens_options(40, width=77, **{key: value})
                writer.add("HP", key, *rollout(deployed.system, "lens", [1.0, 1.1, 1.2], **options))


def full_writer():
    writer = Writer()
    for add in (add_rollouts, add_ablation, add_gradients, add_multi_trajectory, add_profiles):
        add(writer)
    writer.add("CS", "case", {"kind": "case-study", "schema": 1}, CASE)
    return writer
