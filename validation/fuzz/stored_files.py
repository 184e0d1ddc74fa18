"""Models, networks, checkpoints, studies and records that are almost right."""

from __future__ import annotations

import hashlib
import json
import struct
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from validation.fuzz.mutate import altered, as_json, damaged, retyped

QUICK = {"width": 4, "depth": 2, "basis": 4, "members": 1, "epochs": 1, "unroll": 0, "history": 1, "ridge": None}
JOB = "the job of this checkpoint"


def write_models(folder: Path) -> None:
    """Forecasters of every kind: plain, with inputs and history, on a grid."""
    from lln.data.series import Dataset, Series
    from lln.forecaster.forecaster import LensForecaster

    rng = np.random.default_rng(0)
    walk = np.sin(0.1 * np.arange(150)[:, None] + np.arange(3)) + 0.01 * rng.standard_normal((150, 3))
    LensForecaster(**QUICK).fit(Dataset((Series(walk),), 0.1, ("a", "b", "c"))).save(folder / "plain.lln")
    forced = Dataset((Series(walk[:, :2], walk[:, 2:]),), 0.1, input_names=("f",), units={"time": "s"})
    LensForecaster(**{**QUICK, "history": 2, "members": 2}).fit(forced).save(folder / "forced.lln")
    ring = np.sin(0.1 * np.arange(60)[:, None] + 2 * np.pi * np.arange(8) / 8)
    field = Dataset((Series(ring),), 0.1, space=(8,), channels=("u",))
    LensForecaster(**QUICK, field=True).fit(field).save(folder / "field.lln")


def write_networks(folder: Path) -> None:
    """One network of each kind alone."""
    from lln.models import build, save_model
    from lln.models.factory import MODELS

    for name in MODELS:
        save_model(build(name, 3, 3, width=4, depth=2), folder / f"{name}.net")


def write_checkpoints(folder: Path) -> None:
    """Where a job stood."""
    import torch

    from lln.train.loop import Checkpoint

    one = Checkpoint(folder / "job.checkpoint", JOB)
    one.put("choice", {"width": 4, "nmse": [0.1, 0.2], "best": None})
    one.put("training/0", {"epoch": 3}, {"model.weight": torch.ones(3, 2), "optimizer.0.step": torch.tensor(3.0)})


def unsealed(content: bytes) -> bytes:
    """A safetensors file without its digest."""
    length = struct.unpack("<Q", content[:8])[0]
    outer = json.loads(content[8 : 8 + length])
    outer["__metadata__"].pop("sha256", None)
    text = json.dumps(outer).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def safetensors(rng: Random, seed: bytes, others: list[bytes]) -> bytes:
    """A safetensors file with a part of its listing, of lln's JSON in it, or of its numbers changed."""
    length = struct.unpack("<Q", seed[:8])[0]
    outer, body = json.loads(seed[8 : 8 + length]), seed[8 + length :]
    mark = next(key for key in outer["__metadata__"] if key.startswith("lln"))
    action = rng.random()
    if action < 0.65:
        inner = altered(rng, json.loads(outer["__metadata__"][mark]))
        outer["__metadata__"][mark] = as_json(inner)
    elif action < 0.7:
        outer["__metadata__"][mark] = retyped(rng, outer["__metadata__"][mark])
    elif action < 0.8:
        outer = altered(rng, outer)
    else:
        body = damaged(rng, body, others)
        body = (body + seed)[: len(seed) - 8 - length] if rng.random() < 0.8 else body
    text = as_json(outer).encode("utf-8", "replace")
    stated = len(text) if rng.random() < 0.98 else rng.choice((0, 10**12, 2**64 - 1, len(text) + 1))
    return struct.pack("<Q", stated) + text + body


def write_studies(folder: Path) -> None:
    """The studies that ship with lln."""
    import importlib.resources

    home = importlib.resources.files("lln.paper")
    for part in ("studies", "smoke"):
        for item in home.joinpath(part).iterdir():
            if item.name.endswith(".toml") and item.name != "ratios.toml":
                (folder / item.name).write_text(item.read_text(encoding="utf-8"), encoding="utf-8")


def study(rng: Random, seed: bytes) -> bytes:
    """A study with some of its values changed, most of them still TOML."""
    if rng.random() < 0.2:
        return retyped(rng, seed.decode()).encode("utf-8", "replace")
    return toml(altered(rng, tomllib.loads(seed.decode()))).encode("utf-8", "replace")


def toml(value: Any) -> str:
    """A table as TOML; what TOML does not know is left out."""
    if not isinstance(value, dict):
        return f"x = {_toml(value)}\n"
    return "".join(f"{json.dumps(str(key))} = {_toml(one)}\n" for key, one in value.items() if one is not None)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(key))} = {_toml(one)}" for key, one in value.items() if one is not None)
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value if one is not None) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "")
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, (int, float)) else '"nothing"'


def records_seed() -> dict[str, Any]:
    """The lines of a folder of records as decoded values."""
    spec = {"kind": "rollout", "system": "lorenz-28", "depth": 2, "seed": 0, "recipe": {"epochs": 1, "clip": None}}
    done = {"spec": spec, "status": "done", "result": {"nmse": 0.5, "curve": [0.1, "inf"]}}
    failed = {"spec": {**spec, "seed": 1}, "status": "failed", "error": "it broke"}
    time = {"digest": "0" * 32, "seconds": 1.5, "provenance": {"python": "3.11"}}
    return {
        "records.jsonl": [done, failed],
        "times.jsonl": [time],
        "blocks.json": {"R0": [{"digest": "0" * 32, "role": "row"}]},
    }


def records(rng: Random, folder: Path) -> None:
    """A folder of records with some of its values changed; most lines still carry the right digest."""
    content = records_seed()
    name = rng.choice(list(content))
    content[name] = altered(rng, content[name])
    folder.mkdir(exist_ok=True)
    for file, value in content.items():
        if file == "blocks.json":
            text = as_json(value)
        else:
            lines = value if isinstance(value, list) else [value]
            text = "".join(as_json(_signed(rng, line)) + "\n" for line in lines)
        damage = file == name and rng.random() < 0.25
        written = text.encode("utf-8", "replace")
        (folder / file).write_bytes(damaged(rng, written) if damage else written)


def _signed(rng: Random, line: Any) -> Any:
    if not isinstance(line, dict) or "spec" not in line or rng.random() < 0.1:
        return line
    try:
        text = json.dumps(line["spec"], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError):
        return line
    return {"digest": hashlib.sha256(text.encode()).hexdigest()[:32], **line}
