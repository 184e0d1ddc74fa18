"""Train contenders on APEBench's data and keep their weights; all seeds of a contender go through in one pass.

Needs torch, NumPy and lln's sources; no JAX. `python train.py --device cuda --graph --out weights` is the whole
benchmark. The budget is APEBench's own, 10,000 updates of 20 pairs, each pair a state and its successor. The recipes:

- "increments": the network sees the state over its spread and predicts the increment over its spread, Adam, learning
  rate 3e-3 after a linear start of 500 updates, down to zero by a cosine; "increments-slow"
  and "increments-fast" are the same with 1e-3 and 1e-2;
- "apebench": the network predicts the next state outright, Adam, 1e-3 after 2,000 updates, down by a cosine: the
  benchmark's own, to check the networks that are written again here against the published scores.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from contenders import CONTENDERS, make, parameters
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

HERE = Path(__file__).parent
# What matters most comes first: a run under a limit of time leaves out the end.
PLAN = (
    ("diff_burgers", "lens-2-blocks", "increments"),
    ("diff_burgers", "lens-1-block", "increments"),
    ("diff_burgers", "resnet", "increments"),
    ("diff_burgers", "conv", "increments"),
    *(("diff_burgers", name, "increments-fast") for name in ("lens-1-block", "lens-2-blocks")),
    *(("diff_adv", name, "increments") for name in CONTENDERS),
    *(("diff_burgers", name, "increments-slow") for name in ("resnet", "conv", "lens-2-blocks", "lens-1-block")),
    *((scenario, name, "apebench") for scenario in ("diff_burgers", "diff_adv") for name in ("resnet", "conv")),
    *(("diff_burgers", name, "increments-fast") for name in ("resnet", "conv")),
    *(("diff_burgers_sc_2d", name, recipe) for name in ("resnet", "conv") for recipe in ("apebench", "increments")),
)


@dataclass(frozen=True)
class Recipe:
    """How a contender is trained."""

    increments: bool
    rate: float
    warmup: int

    def rate_at(self, update: int, updates: int) -> float:
        """Learning rate: linear from zero, then a cosine to zero."""
        warmup = min(self.warmup, updates // 5)
        if update < warmup:
            return self.rate * update / warmup
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


RECIPES = {
    "increments": Recipe(True, 3e-3, 500),
    "increments-slow": Recipe(True, 1e-3, 500),
    "increments-fast": Recipe(True, 1e-2, 500),
    "apebench": Recipe(False, 1e-3, 2000),
}


@dataclass(frozen=True)
class Units:
    """What one unit of the network's input and output is worth."""

    state: float
    output: float
    increments: bool

    @classmethod
    def of(cls, train: Tensor, recipe: Recipe) -> Units:
        """The spreads of states and increments (samples, time, *points, channels); no units for whole states."""
        if not recipe.increments:
            return cls(1.0, 1.0, False)
        return cls(train.double().std().item(), (train[:, 1:] - train[:, :-1]).double().std().item(), True)


class Stack:
    """Networks of one shape as one: stacked parameters, each network with its own part of the batch."""

    def __init__(self, name: str, seeds: list[int], device: str, axes: int = 1) -> None:
        self.shape = make(name, 0, axes).to(device)
        self.members = [make(name, seed, axes).to(device) for seed in seeds]
        self.parameters, _ = stack_module_state(self.members)

    def __call__(self, x: Tensor) -> Tensor:
        """(S, B, *points, 1) -> (S, B, *points, 1)."""
        if x.device.type == "cpu":  # where one after the other is faster
            parts = [{key: value[s] for key, value in self.parameters.items()} for s in range(len(x))]
            return torch.stack(
                [functional_call(self.shape, part, (rows,)) for part, rows in zip(parts, x, strict=True)]
            )
        return vmap(lambda weights, rows: functional_call(self.shape, weights, (rows,)))(self.parameters, x)


def pairs(train: Tensor, units: Units) -> tuple[Tensor, Tensor]:
    """Inputs and targets in the network's units, (pairs, *points, 1)."""
    now, then = train[:, :-1].flatten(0, 1), train[:, 1:].flatten(0, 1)
    return now / units.state, ((then - now) if units.increments else then) / units.output


def orders(count: int, batch: int, updates: int, seeds: list[int]) -> Tensor:
    """Which pairs each update of each seed sees, (updates, S, B): whole epochs, each in an order of its own."""
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed + 1000)
        epochs = -(-updates * batch // (count // batch * batch))
        order = [torch.randperm(count, generator=generator)[: count // batch * batch] for _ in range(epochs)]
        drawn.append(torch.cat(order)[: updates * batch].view(updates, batch))
    return torch.stack(drawn, dim=1)


class Trainer:
    """One update at a time, or, on a GPU, one replay of a captured update."""

    def __init__(self, stack: Stack, inputs: Tensor, targets: Tensor, chosen: Tensor, graph: bool) -> None:
        self.stack, self.inputs, self.targets = stack, inputs, targets
        self.chosen = chosen.clone()
        self.loss = torch.zeros(chosen.shape[0], device=inputs.device)
        self.rate = torch.zeros((), device=inputs.device) if graph else 0.0
        leaves = list(stack.parameters.values())
        self.optimizer = torch.optim.Adam(leaves, lr=self.rate, fused=True, capturable=graph)
        self.graph = self._capture(leaves) if graph else None

    def update(self, chosen: Tensor, rate: float) -> None:
        """One Adam step of every network on its own pairs."""
        self.chosen.copy_(chosen)
        if self.graph is not None:
            self.rate.fill_(rate)
            self.graph.replay()
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._step()

    def _step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        out = self.stack(self.inputs[self.chosen])
        loss = (out - self.targets[self.chosen]).square().flatten(1).mean(dim=1)
        loss.sum().backward()  # no parameter is shared: every network's own gradient
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def _capture(self, leaves: list[nn.Parameter]) -> torch.cuda.CUDAGraph:
        before = [leaf.detach().clone() for leaf in leaves]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self._step()
        with torch.no_grad():  # the steps above were for warmth alone
            for leaf, value in zip(leaves, before, strict=True):
                leaf.copy_(value)
                for state in self.optimizer.state[leaf].values():
                    state.zero_()
        return graph


@torch.no_grad()
def rollout(stack: Stack, starts: Tensor, steps: int, units: Units) -> Tensor:
    """Every network's states after the starts (B, *points, 1): (S, B, steps, *points, 1), the sum kept in float64."""
    state = starts.double().expand(len(stack.members), *starts.shape)
    states = []
    for _ in range(steps):
        out = stack((state / units.state).float()).double() * units.output
        state = state + out if units.increments else out
        states.append(state.float())
    return torch.stack(states, dim=2)


def errors(predicted: Tensor, truth: Tensor) -> Tensor:
    """APEBench's mean nRMSE by step, (S, steps): relative error of each sample's field, then the mean."""
    norms = (predicted - truth).double().flatten(3).norm(dim=-1)
    return (norms / truth.double().flatten(2).norm(dim=-1)).mean(dim=1)


def score(by_step: Tensor) -> Tensor:
    """The geometric mean over the first 100 steps, (S,)."""
    return by_step[:, :100].log().mean(dim=1).exp()


def train_contender(
    scenario: str, name: str, recipe: str, seeds: list[int], options: argparse.Namespace
) -> dict[str, object]:
    """Train, roll out the test starts, and return weights, losses and errors as plain arrays."""
    device, began = options.device, time.perf_counter()
    with np.load(options.data / f"{scenario}.npz") as file:
        train, test = (torch.from_numpy(file[key]).movedim(2, -1).to(device) for key in ("train", "test"))
        batch, updates = int(file["batch"]), options.updates or int(file["updates"])
    units = Units.of(train, RECIPES[recipe])
    inputs, targets = pairs(train, units)
    chosen = orders(len(inputs), batch, updates, seeds).to(device)
    stack = Stack(name, seeds, device, inputs.ndim - 2)
    trainer = Trainer(stack, inputs, targets, chosen[0], options.graph)
    losses = []
    for update in range(updates):
        trainer.update(chosen[update], RECIPES[recipe].rate_at(update, updates))
        if update % 100 == 99:
            losses.append(trainer.loss.clone())
        if update % 2000 == 1999:
            spent, loss = time.perf_counter() - began, trainer.loss.median().item()
            print(f"  {scenario} {name} {recipe}: {update + 1} updates, {spent:.0f} s, loss {loss:.2e}", flush=True)
    by_step = errors(rollout(stack, test[:, 0], options.steps, units), test[:, 1 : options.steps + 1])
    found = score(by_step).cpu()
    seconds = time.perf_counter() - began
    print(
        f"{scenario} {name} {recipe}: median score {np.median(found):.5f} of {sorted(found.tolist())}, {seconds:.0f} s"
    )
    about = {
        "scenario": scenario, "contender": name, "recipe": recipe, "seeds": seeds, "updates": updates, "batch": batch,
        "parameters": parameters(stack.shape), "seconds": seconds, "units": asdict(units), "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "scores_in_torch": found.tolist(),
        "graph": options.graph,
    }  # fmt: skip
    arrays = {f"weights.{key}": value.detach().cpu().numpy() for key, value in stack.parameters.items()}
    arrays |= {"errors": by_step.cpu().numpy(), "losses": torch.stack(losses).cpu().numpy() if losses else np.zeros(0)}
    return {"about": json.dumps(about), **arrays}


def keep(path: Path, name: str, result: dict[str, object]) -> None:
    """Add a contender's arrays to a file, as "contender/array"; what is there of others stays."""
    found: dict[str, object] = {}
    if path.is_file():
        with np.load(path) as file:
            found = {key: file[key] for key in file.files if not key.startswith(f"{name}/")}
    found |= {f"{name}/{key}": value for key, value in result.items()}
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **found)
    partial.replace(path)


def probe(device: str) -> bool:
    """Whether one captured update equals one eager update; asked before the whole benchmark is trusted to it."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(40, 160, 1, generator=generator).to(device)
    chosen = torch.randint(40, (3, 2, 20), generator=generator).to(device)
    ends = []
    for graph in (False, True):
        stack = Stack("lens-1-block", [0, 1], device)
        trainer = Trainer(stack, inputs, inputs, chosen[0], graph)
        for rows in chosen:
            trainer.update(rows, 1e-3)
        ends.append([value.detach().clone() for value in stack.parameters.values()])
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*ends, strict=True))


def main() -> None:
    """Go through the plan, the most important first, and keep every contender as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=HERE / "weights")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--updates", type=int, help="default: the scenario's own 10,000")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", nargs="+", help="scenario:contender:recipe, any number of them")
    parser.add_argument("--graph", action="store_true", help="capture one update as a CUDA graph")
    parser.add_argument("--probe", action="store_true", help="only ask whether captured updates are right here")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which nothing new is begun")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.probe:
        raise SystemExit(0 if probe(options.device) else 1)
    began, longest = time.perf_counter(), 0.0
    for scenario, name, recipe in PLAN:
        key = f"{scenario}:{name}:{recipe}"
        if options.only and key not in options.only:
            continue
        before = time.perf_counter()
        if before - began + longest > options.limit:
            print(f"{key}: left out, {before - began:.0f} s are spent")
            continue
        result = train_contender(scenario, name, recipe, list(range(options.seeds)), options)
        keep(options.out / f"{scenario}-{recipe}.npz", name, result)
        longest = max(longest, time.perf_counter() - before)


if __name__ == "__main__":
    main()
