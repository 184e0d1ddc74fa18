"""The paper's own recipe: one network that predicts the next standardised state, six epochs of Adam, no linear part."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
import torch

from lln.core.errors import InputError
from lln.data.series import Dataset
from lln.fit.choice.noise_and_seasons import estimate_noise
from lln.fit.options import Event, Fit, Phase, Progress, Recipe
from lln.fit.prepare import FrameChoice, prepare
from lln.fit.report.report import report_of
from lln.models import build
from lln.models.factory import stack
from lln.step.step import DenseStep
from lln.train.ensemble import Shape, fit_ensemble
from lln.train.fit import TrainConfig
from lln.train.loop import Checkpoint

_LENS = {"width": 128, "depth": 40, "basis": 12, "optical_length": 1.0}
_PLAIN = {"width": 128, "depth": 40}


def fit_paper(
    dataset: Dataset, recipe: Recipe, seeds: Sequence[int], progress: Progress, checkpoint: Checkpoint
) -> list[Fit]:
    """One fit for each seed, all networks in one pass, of data that fits into memory.

    A run of six epochs is short, so only its result is stored in the checkpoint.
    """
    if recipe.history not in ("auto", 1):
        raise InputError(f"the paper's recipe looks at one state, got history={recipe.history}; use recipe='lens'")
    began = time.perf_counter()
    ready = prepare(dataset, 1)
    held = ready.held
    if held is None:
        raise InputError("the paper's recipe needs data that fits into memory; use recipe='lens' or less data")
    n, members = dataset.size, recipe.members or 1
    # z + (-z + net) = net: the network's output is the next state itself.
    forget = np.hstack([-np.eye(n), np.zeros((n, dataset.inputs))])
    frame = ready.units.frame(forget, None, np.ones(n))
    lens = recipe.model == "lens"
    shape = Shape(recipe.model, {**(_LENS if lens else _PLAIN), **recipe.sizes}, frame.features, n)
    draws = [seed if members == 1 else seed * members + index for seed in seeds for index in range(members)]
    networks = [
        build(shape.model, shape.n_in, n, generator=torch.Generator().manual_seed(draw), **shape.options)
        for draw in draws
    ]
    model = stack(networks).to(recipe.device)
    epochs = 6 if recipe.epochs == "auto" else int(recipe.epochs)
    extra = {} if lens else {"weight_decay": 1e-6, "clip": 1.0}
    config = TrainConfig(
        epochs=epochs,
        batch_size=recipe.batch_size or 64,
        learning_rate=recipe.learning_rate or (1e-3 if lens else 3e-4),
        **extra,
    )
    x = torch.from_numpy(frame.feature_rows(held.window, held.inputs)).to(recipe.device, torch.float32)
    y = torch.from_numpy((held.target - frame.mean) / frame.scale).to(recipe.device, torch.float32)
    progress(Event(Phase.TRAINING, 0, epochs))
    done = checkpoint.get("training")
    if done is None:
        history = fit_ensemble(model, x, y, config, draws)
        checkpoint.put("training", {"updates": history.updates}, dict(model.state_dict()))
        updates = history.updates
    else:
        model.load_state_dict(done[1])
        updates = int(done[0]["updates"])
    progress(Event(Phase.TRAINING, epochs, epochs))
    model.eval()
    noise = estimate_noise(dataset)
    return [
        report_of(
            surrogate=DenseStep(frame, tuple(model.member(group * members + k) for k in range(members))),
            recipe=recipe,
            dataset=dataset,
            ready=ready,
            fold=None,
            noise=noise,
            candidate=FrameChoice(1, None, None),
            correction_weight=1.0,
            shape=shape,
            updates=updates,
            tried=[],
            held_out=math.nan,
            linear=math.nan,
            seconds=time.perf_counter() - began,
        )
        for group in range(len(seeds))
    ]
