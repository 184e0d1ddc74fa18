import pytest
import torch
from torch import nn

from lln.core.errors import InputError
from lln.train import loop as module
from lln.train.loop import Checkpoint, identity_of, restore_training, training_state


def test_what_was_put_is_there_in_a_new_process(tmp_path):
    path = tmp_path / "fit.checkpoint"
    first = Checkpoint(path, "job")
    first.put("one phase", {"done": 3}, {"a.b": torch.arange(4.0), "scalar": torch.tensor(2)})
    first.put("another/with slash", [1, None, 0.5])
    second = Checkpoint(path, "job")
    values, tensors = second.get("one phase")
    assert values == {"done": 3}
    assert torch.equal(tensors["a.b"], torch.arange(4.0))
    assert int(tensors["scalar"]) == 2
    assert second.get("another/with slash") == ([1, None, 0.5], {})
    assert second.get("never") is None


def test_a_phase_replaces_what_it_left_before_and_can_be_dropped(tmp_path):
    path = tmp_path / "c"
    kept = Checkpoint(path, "job")
    kept.put("p", 1, {"x": torch.zeros(2), "y": torch.zeros(1)})
    kept.put("p", 2, {"x": torch.ones(2)})
    assert set(Checkpoint(path, "job").get("p")[1]) == {"x"}
    kept.drop("p")
    kept.put("q", 0)
    assert Checkpoint(path, "job").get("p") is None


def test_without_a_path_it_remembers_in_memory_and_is_never_due():
    kept = Checkpoint(None, "job")
    kept.put("p", 1)
    assert kept.get("p") == (1, {})
    assert not kept.due
    kept.remove()


def test_it_is_due_when_enough_time_has_passed(tmp_path, monkeypatch):
    kept = Checkpoint(tmp_path / "c", "job")
    assert not kept.due
    monkeypatch.setattr(module, "EVERY", 0.0)
    assert kept.due


def test_remove_deletes_the_file(tmp_path):
    kept = Checkpoint(tmp_path / "c", "job")
    kept.put("p", 1)
    kept.remove()
    assert not (tmp_path / "c").exists()


def test_a_file_of_another_job_is_refused_with_the_remedy(tmp_path):
    Checkpoint(tmp_path / "c", "job").put("p", 1)
    with pytest.raises(InputError, match=r"another fit.*delete it"):
        Checkpoint(tmp_path / "c", "other")


def test_remove_deletes_what_a_killed_writer_left(tmp_path):
    left = tmp_path / ".c.0123456789abcdef.partial"
    left.mkdir()
    Checkpoint(tmp_path / "c", "job").remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, damage):
    path = tmp_path / "c"
    Checkpoint(path, "job").put("p", 1, {"x": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:-10] if damage is None else damage)
    with pytest.raises(InputError, match="not a whole checkpoint"):
        Checkpoint(path, "job")


@pytest.mark.parametrize("when", ["before it is opened", "while it is read", "and begins anew"])
def test_a_file_that_another_process_deletes_meanwhile_is_none(when, tmp_path, monkeypatch):
    path = tmp_path / "c"
    Checkpoint(path, "job").put("p", 1)

    def read(self, path):
        path.unlink()
        if when == "before it is opened":
            found(self, path)
        if when == "and begins anew":
            try:
                found(self, path)
            finally:
                path.write_bytes(b"")
        raise module.InputError("not whole")

    found = Checkpoint._read
    monkeypatch.setattr(Checkpoint, "_read", read)
    assert Checkpoint(path, "job").get("p") is None


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORMAT", 99)
    Checkpoint(tmp_path / "c", "job").put("p", 1)
    monkeypatch.undo()
    with pytest.raises(InputError, match="update lln"):
        Checkpoint(tmp_path / "c", "job")


def test_identity_depends_on_every_value_and_not_on_their_order():
    assert identity_of({"a": 1, "b": 2}) == identity_of({"b": 2, "a": 1})
    assert identity_of({"a": 1, "b": 2}) != identity_of({"a": 1, "b": 3})


def _train(model, optimizer, first, last):
    for step in range(first, last):
        optimizer.zero_grad()
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        optimizer.step()


def test_training_goes_on_bitwise_where_it_stopped(tmp_path):
    def fresh():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
        return model, torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)

    whole, optimizer = fresh()
    _train(whole, optimizer, 0, 7)

    part, optimizer = fresh()
    _train(part, optimizer, 0, 3)
    Checkpoint(tmp_path / "c", "job").put("p", {}, training_state(part, optimizer))

    rest, optimizer = fresh()
    restore_training(rest, optimizer, Checkpoint(tmp_path / "c", "job").get("p")[1])
    _train(rest, optimizer, 3, 7)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, rest.state_dict()[name]), name


@pytest.mark.parametrize(
    "header",
    [
        "[" * 100_000,
        "[]",
        '{"format": 1e999, "identity": "job", "values": {}}',
        '{"format": 1, "identity": "job", "values": []}',
        '{"format": true, "identity": "job", "values": {}}',
        '{"format": 1, "identity": ["job"], "values": {}}',
    ],
)
def test_a_header_of_other_kinds_is_refused(tmp_path, header):
    from safetensors.torch import save_file

    save_file({"p/a": torch.ones(2)}, tmp_path / "c", metadata={"lln-checkpoint": header})
    with pytest.raises(InputError, match="not a whole checkpoint of lln"):
        Checkpoint(tmp_path / "c", "job")
