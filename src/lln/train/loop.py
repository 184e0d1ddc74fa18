"""The training loop for every model: schedule, batches, updates, snapshots, a time limit, progress, checkpoints.

On a GPU an update is captured once and replayed, since launching its kernels takes longest. Several processes train one
model through `torch.distributed`: start the same program in each of them with torchrun,

    torchrun --nproc-per-node 2 fit.py

and all draw the same batches, take their part of each, average the gradients and end with the same model.

A `Checkpoint` is the state of a long job in one file that is replaced atomically, so that a killed job continues to the
same result. Safetensors and JSON: nothing is pickled, so that opening a file never runs code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from lln import __version__
from lln.core.errors import InputError, reason
from lln.core.safe_files import BLANK, BROKEN, KEY, broken, sealed, tidy, whole_file

FORMAT = 1
NAME = "lln-checkpoint"
EVERY = 10.0  # seconds between two savings of work in progress


def identity_of(values: Mapping[str, Any]) -> str:
    """A name for a job, from everything that its result depends on."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:32]


class Checkpoint:
    """Results of the phases of one job: plain values and tensors, by the phase's name.

    A path of None keeps everything in memory. A file of another job (see `identity_of`) is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: str) -> None:
        self.path = None if path is None else Path(path)
        self.identity = identity
        self._values: dict[str, Any] = {}
        self._tensors: dict[str, dict[str, Tensor]] = {}
        self._written = time.monotonic()
        if self.path is not None and self.path.exists():
            try:
                self._read(self.path)
            except (InputError, OSError) as error:
                # Another process that did the same work may have ended and deleted it, and a third begun a new one.
                if self.path.exists() and not isinstance(error.__cause__ or error, FileNotFoundError):
                    raise

    def get(self, phase: str) -> tuple[Any, dict[str, Tensor]] | None:
        """What `phase` stored, or None if it has stored nothing."""
        if phase not in self._values:
            return None
        return self._values[phase], self._tensors.get(phase, {})

    def put(self, phase: str, values: Any, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Store the result of `phase`, in place of an earlier one."""
        self._values[phase] = values
        self._tensors[phase] = {name: tensor.detach().cpu().contiguous() for name, tensor in (tensors or {}).items()}
        self._write()

    def drop(self, phase: str) -> None:
        """Remove `phase`; the next `put` writes that to the file."""
        self._values.pop(phase, None)
        self._tensors.pop(phase, None)

    @property
    def due(self) -> bool:
        """Whether it is time to save work in progress."""
        return self.path is not None and time.monotonic() - self._written >= EVERY

    def remove(self) -> None:
        """Delete the file after the job, with temporary files of killed writers."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            tidy(self.path)

    def _write(self) -> None:
        self._written = time.monotonic()
        if self.path is None:
            return
        from safetensors.torch import save

        header = {"format": FORMAT, "lln": __version__, "identity": self.identity, "values": self._values}
        flat = {f"{phase}/{name}": t for phase, tensors in self._tensors.items() for name, t in tensors.items()}
        with whole_file(self.path) as partial:
            partial.write_bytes(sealed(save(flat, metadata={NAME: json.dumps(header), KEY: BLANK})))

    def _read(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            path.open("rb").close()  # safetensors reports every file that it cannot open as missing
        except OSError as error:
            raise InputError(
                f"{path}: the checkpoint cannot be read ({error.strerror}); change its permissions or give another"
            ) from error
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                header = json.loads(metadata[NAME])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            known, identity, values = _checked(header)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, OverflowError, RuntimeError) as error:
            raise InputError(
                f"{path}: not a whole checkpoint of lln ({reason(error)}); delete it to start anew"
            ) from error
        if broken(path, metadata, NAME):
            raise InputError(f"{path}: not a whole checkpoint of lln; {BROKEN}, so delete it to start anew")
        if known > FORMAT:
            raise InputError(
                f"{path}: a checkpoint of lln {header.get('lln')}, newer than this {__version__}; update lln",
                topic="newer",
            )
        if identity != self.identity:
            raise InputError(
                f"{path}: a checkpoint of another fit (other data or other options); delete it to start anew, or name "
                "another file"
            )
        self._values = values
        for name, tensor in tensors.items():
            phase, _, key = name.rpartition("/")
            self._tensors.setdefault(phase, {})[key] = tensor


def _checked(header: Any) -> tuple[int, str, dict[str, Any]]:
    """Format, identity and values of a checkpoint, each of its kind."""
    known, identity, values = header["format"], header["identity"], header["values"]
    if type(known) is not int or not isinstance(identity, str) or not isinstance(values, dict):
        raise ValueError("its header is damaged")
    return known, identity, values


def training_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Parameters, buffers and the optimizer's memory as flat tensors."""
    tensors = {f"model.{name}": value.detach().clone() for name, value in model.state_dict().items()}
    for index, parameter in enumerate(_parameters(optimizer)):
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{index}.{key}"] = torch.as_tensor(value).detach().clone()
    return tensors


def restore_training(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put model and optimizer back to where `training_state` found them."""
    model.load_state_dict(under("model.", tensors))
    for index, parameter in enumerate(_parameters(optimizer)):
        # Numbers stay where they are, but for the one that a fused optimizer keeps with its parameter.
        optimizer.state[parameter] = {
            key: (value.to(parameter.device) if value.ndim or key == "step" else value).clone()
            for key, value in under(f"optimizer.{index}.", tensors).items()
        }


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, with the prefix removed."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


Progress = Callable[[int, int, float], None]
"""Updates made, updates planned, mean loss."""
State = dict[str, Tensor]
Batch = Sequence[Tensor | None]
Loss = Callable[..., Tensor]
"""The tensors of a batch -> the loss: a scalar, or one value for each member of an ensemble, (S,)."""

REPORT_EVERY = 25
_TIMED = 10  # updates after which the time of one is known
WARM_UP = 0.05
_TIMEOUT = timedelta(minutes=30)  # of messages between processes
_EAGER = 3  # steps before a capture, in which kernels compile and the optimizer allocates its state


class Trainer:
    """Minibatch training that can stop at any update and continue to the same result.

    `batch` gives the tensors of an update, on the model's device, from its number alone, so that parameters, optimizer
    and counters are the whole state.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Callable[[int], Batch],
        loss: Loss,
        schedule: Schedule,
        options: UpdateOptions | None = None,
    ) -> None:
        self.model, self.batch, self.schedule = model, batch, schedule
        self.options = options or UpdateOptions()
        self.update = make_update(model, loss, self.options)
        self.updates, self.done = schedule.updates, 0
        self.snapshots: list[State] = []
        self.last: Tensor | None = None
        self._seconds = 0.0  # of all updates so far
        self._each = 0.0  # seconds of one recent update

    @property
    def finished(self) -> bool:
        """Whether all updates are made."""
        return self.done >= self.updates

    def advance(self, count: int) -> Tensor:
        """Make `count` updates, or as many as are left; the mean loss in float64, each example as it was seen."""
        axis = 1 if self.options.members else 0
        total, seen = torch.zeros((), dtype=torch.float64), 0
        was_training = self.model.training
        self.model.train()
        try:
            for _ in range(min(count, self.updates - self.done)):
                batch = self.batch(self.done)
                if self.options.parallel:
                    batch = [_part(tensor, axis) for tensor in batch]
                self.last = self.update(batch, self.schedule.at(self.done, self.updates))
                rows = next(tensor.shape[axis] for tensor in batch if tensor is not None)
                total = self.last.double() * rows + total.to(self.last.device)
                seen += rows
                self.done += 1
                self._snapshot()
        finally:
            self.model.train(was_training)
        return total / max(seen, 1)

    def run(self, checkpoint: Checkpoint | None = None, phase: str = "", progress: Progress | None = None) -> None:
        """Make all updates, or those that a checkpoint of this phase has left; `progress` is called every few."""
        known = None if checkpoint is None else checkpoint.get(phase)
        if known is not None:
            self.restore(*known)
        fresh = False
        while not self.finished:
            began, first = time.monotonic(), self.done
            loss = float(self.advance(self._piece()).mean())  # waits for the device
            taken = time.monotonic() - began
            self._seconds, self._each, fresh = self._seconds + taken, taken / (self.done - first), True
            self._keep_time()
            if progress is not None and (self.done % REPORT_EVERY == 0 or self.finished):
                progress(self.done, self.updates, loss)
            if checkpoint is not None and not self.finished and checkpoint.due and rank() == 0:
                checkpoint.put(phase, *self.state())
        if checkpoint is not None and fresh and rank() == 0:
            checkpoint.put(phase, *self.state())

    def state(self) -> tuple[dict[str, Any], State]:
        """Everything that a later run needs: plain values, and tensors by name."""
        tensors = training_state(self.model, self.update.optimizer)
        for index, snapshot in enumerate(self.snapshots):
            tensors |= {f"stop{index}.{name}": t for name, t in snapshot.items()}
        if self.last is not None:
            tensors["loss"] = self.last
        values = {"done": self.done, "updates": self.updates, "stops": len(self.snapshots), "seconds": self._seconds}
        return values, tensors

    def restore(self, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        device = next(self.model.parameters()).device
        restore_training(self.model, self.update.optimizer, tensors)
        self.done, self.updates = int(values["done"]), int(values["updates"])
        self._seconds = float(values.get("seconds", 0.0))
        self.last = tensors["loss"].to(device) if "loss" in tensors else None
        self.snapshots = []
        for index in range(int(values.get("stops", 0))):
            self.snapshots.append({name: t.to(device) for name, t in under(f"stop{index}.", tensors).items()})

    def _piece(self) -> int:
        """Updates until the next check of the clock."""
        if self.schedule.seconds is not None and self.done < _TIMED:
            return _TIMED - self.done
        return REPORT_EVERY - self.done % REPORT_EVERY

    def _keep_time(self) -> None:
        """Plan as many updates as the time limit allows, at the speed of the last ones."""
        if self.schedule.seconds is None or self.finished:
            return
        left = int(max(0.0, self.schedule.seconds - self._seconds) / self._each)
        planned = min(self.schedule.updates, self.done + left)
        self.updates = _agreed(planned) if self.options.parallel else planned
        self._snapshot()

    def _snapshot(self) -> None:
        stops = self.schedule.stops
        while len(self.snapshots) < len(stops) and self.done >= round(stops[len(self.snapshots)] * self.updates):
            self.snapshots.append({name: t.detach().clone() for name, t in self.model.state_dict().items()})


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a model is trained."""

    updates: int  #: number of optimizer steps.
    rate: float  #: highest learning rate.
    kind: str = "cosine"  #: "cosine" falls from `rate` to zero over all updates, "constant" stays.
    warm_up: float = 0.0  #: fraction of the updates over which the rate rises linearly from zero.
    stops: tuple[float, ...] = ()  #: fractions of the schedule at which a snapshot is kept, increasing; empty for none.
    seconds: float | None = None  #: time limit. Fewer updates are made when they would take longer.

    def at(self, update: int, updates: int) -> float:
        """Learning rate of update number `update` (from 0) of `updates`, which a time limit may have reduced."""
        warm = min(1.0, (update + 1) / max(1.0, self.warm_up * updates))
        if self.kind == "constant":
            return self.rate * warm
        return self.rate * warm * 0.5 * (1.0 + math.cos(math.pi * update / updates))


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread of torch and its libraries, then restore their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class UpdateOptions:
    """How gradients become a step."""

    #: "adam", whose weight decay adds to the gradient, or "adamw", whose weight decay shrinks weights.
    optimizer: str = "adam"
    weight_decay: float = 0.0  #: its strength.
    #: largest norm of the gradient, of each member alone in an ensemble; None leaves it as it is.
    clip: float | None = None
    #: whether the model is an ensemble, with the members first in every parameter and in every batch.
    members: bool = False
    #: called after each backward pass, for example to zero gradients of weights that stay zero.
    mask: Callable[[], None] | None = None
    parallel: bool = False  #: whether gradients are averaged over the processes of torchrun.


class Update:
    """One optimizer step on one batch, whose loss must use `model`."""

    def __init__(self, model: nn.Module, loss: Loss, options: UpdateOptions) -> None:
        self.model, self.loss, self.options = model, loss, options
        self.optimizer = self._optimizer(1e-3)

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """One step at this learning rate; returns the loss before it, detached."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        return self._step(batch)

    def _step(self, batch: Batch) -> Tensor:
        loss = self._backward(batch)
        if self.options.clip is not None:
            self._clip(self.options.clip)
        self.optimizer.step()
        return loss

    def _optimizer(self, rate: float | Tensor, *, capturable: bool = False) -> torch.optim.Optimizer:
        kind = torch.optim.AdamW if self.options.optimizer == "adamw" else torch.optim.Adam
        # Fused: a deep network of small layers would otherwise spend as long here as on its gradients.
        decay = self.options.weight_decay
        return kind(self.model.parameters(), lr=rate, weight_decay=decay, capturable=capturable, fused=True)

    def _backward(self, batch: Batch) -> Tensor:
        loss = self.loss(*batch)
        # Members share no parameter, so the gradient of the sum is every member's gradient of its own loss.
        loss.sum().backward()
        if self.options.mask is not None:
            self.options.mask()
        loss = loss.detach()
        if self.options.parallel:
            _average([loss, *self._gradients()])
        return loss

    def _clip(self, limit: float) -> None:
        if self.options.members:
            clip_by_member(self._gradients(), limit)
        else:
            nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]


class CapturedUpdate(Update):
    """The same step on a GPU: after a few eager steps it is one CUDA graph."""

    def __init__(self, model: nn.Module, loss: Loss, options: UpdateOptions) -> None:
        super().__init__(model, loss, options)
        self.rate = torch.tensor(1e-3, device=next(model.parameters()).device)
        self.optimizer = self._optimizer(self.rate, capturable=True)
        self.done = 0
        self.given: list[Tensor | None] = []
        self.graph: torch.cuda.CUDAGraph | None = None
        self.captured = torch.zeros(())

    def __call__(self, batch: Batch, rate: float) -> Tensor:
        """One step at this learning rate; returns the loss before it, detached."""
        self.rate.fill_(rate)
        self.done += 1
        if self.graph is not None and _alike(batch, self.given):
            for held, fresh in zip(self.given, batch, strict=True):
                if held is not None and fresh is not None:
                    held.copy_(fresh)
            self.graph.replay()
            return self.captured.clone()
        if self.graph is not None or self.done <= _EAGER:
            return self._aside(batch)
        self.given = [None if tensor is None else tensor.clone() for tensor in batch]
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.captured = self._step(self.given)
        self.graph.replay()  # a capture alone runs nothing
        return self.captured.clone()

    def _aside(self, batch: Batch) -> Tensor:
        """One eager step on a side stream, as a capture requires of the steps before it."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def _clip(self, limit: float) -> None:
        """As `Update`, but on one row for each member: few kernels instead of three for each tensor."""
        gradients, members = self._gradients(), self.options.members
        row = torch.cat([g.flatten(1) if members else g.view(1, -1) for g in gradients], dim=1)
        row *= (limit / (torch.linalg.vector_norm(row, dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
        parts = row.split([g[0].numel() if members else g.numel() for g in gradients], dim=1)
        torch._foreach_copy_(gradients, [part.view_as(g) for part, g in zip(parts, gradients, strict=True)])


def make_update(model: nn.Module, loss: Loss, options: UpdateOptions) -> Update:
    """The captured update where the model is on a GPU, the eager one elsewhere."""
    captures = next(model.parameters()).is_cuda and not (options.parallel and processes() > 1)
    return CapturedUpdate(model, loss, options) if captures else Update(model, loss, options)


def clip_by_member(gradients: Sequence[Tensor], clip: float) -> None:
    """Scale the gradients in place so that no member's whole norm exceeds `clip`, as `clip_grad_norm_` does for one."""
    parts = [torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients]
    norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
    factors = (clip / (norms + 1e-6)).clamp(max=1.0)
    if bool((factors == 1.0).all()):  # saves a pass over all gradients; NaN is not 1
        return
    for gradient in gradients:
        gradient.mul_(factors.view(-1, *[1] * (gradient.ndim - 1)))


def _alike(batch: Batch, given: Batch) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and a.shape == b.shape)
        for a, b in zip(batch, given, strict=True)
    )


def join_processes(device: str = "cpu") -> bool:
    """Join the process group that torchrun describes in the environment; True if several processes train.

    The device "cuda" takes NCCL, everything else gloo.
    """
    if not distributed.is_available():
        return False
    if not distributed.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ:
            return False
        backend = "nccl" if device.startswith("cuda") else "gloo"
        if backend == "nccl":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        distributed.init_process_group(backend, timeout=_TIMEOUT)
    return processes() > 1


def processes() -> int:
    """Number of processes that train together; 1 without a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if processes() > 1 else 0


def _part(tensor: Tensor | None, axis: int) -> Tensor | None:
    """This process's rows of a batch; all of them where there are fewer rows than processes."""
    count = processes()
    if tensor is None or count == 1 or tensor.shape[axis] < count:
        return tensor
    return tensor[(*[slice(None)] * axis, slice(rank(), None, count))].contiguous()


def _average(tensors: Sequence[Tensor]) -> None:
    """Replace every tensor by its mean over all processes, in one message."""
    if processes() == 1 or not tensors:
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    distributed.all_reduce(flat)
    flat /= processes()
    for tensor, piece in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(piece.view_as(tensor))


def _agreed(value: int) -> int:
    """The value of process 0, for choices that depend on the clock."""
    if processes() == 1:
        return value
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    shared = torch.tensor(value, device=device)
    distributed.broadcast(shared, 0)
    return int(shared)
