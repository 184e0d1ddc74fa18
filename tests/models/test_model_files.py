import copy
import json
import pickle
import pickletools

import pytest
import torch
from safetensors.torch import save_file

from lln import InputError, LensNetwork
from lln.models import MODELS, build, load_model, save_model


def make(name="lens", dtype=torch.float32):
    network = build(name, 3, 2, width=5, depth=3, generator=torch.Generator().manual_seed(0)).to(dtype)
    if name == "residual-batchnorm":
        network.train()(torch.randn(16, 3, dtype=dtype))  # moves the running statistics
    return network.eval()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_comes_back_bit_for_bit(name, dtype, tmp_path):
    network, x = make(name, dtype), torch.randn(7, 3, dtype=dtype)
    path = tmp_path / "model.safetensors"
    save_model(network, path)
    back = load_model(path).eval()
    assert type(back) is type(network)
    assert back.config() == network.config()
    assert list(back.state_dict()) == list(network.state_dict())
    for key, value in network.state_dict().items():
        assert torch.equal(back.state_dict()[key], value)
        assert back.state_dict()[key].dtype == value.dtype
    assert torch.equal(back(x), network(x))
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_every_option_of_the_lens_network_survives(tmp_path):
    network = LensNetwork(
        4, 2, width=3, depth=2, basis=5, optical_length=2.5, lens_scale=0.3, control_range=(-1.0, 2.0), sigma=0.7,
        initial_angle="zero", propagation=0.11,
    )  # fmt: skip
    save_model(network, tmp_path / "a")
    back = load_model(str(tmp_path / "a"))
    assert back.config() == network.config()
    assert back.centers == network.centers


def test_a_file_holds_no_pickle(tmp_path):
    save_model(make(), tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    with pytest.raises(Exception, match=r"."):
        list(pickletools.genops(content))
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(content)


def test_state_dict_and_deepcopy():
    network, x = make(), torch.randn(6, 3)
    twin = copy.deepcopy(network)
    other = LensNetwork(3, 2, width=5, depth=3)
    assert not torch.equal(other(x), network(x))
    other.load_state_dict(network.state_dict())
    with torch.no_grad():
        twin.coefficients.add_(1.0)
    assert torch.equal(other(x), network(x))
    assert not torch.equal(twin(x), network(x))


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    save_model(make(), path)
    before = path.read_bytes()

    def full_disk(_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_model(make(dtype=torch.float64), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_missing_file(tmp_path):
    with pytest.raises(
        InputError, match=r"nothing: no such file; expected a network written by lln\.models\.save_model"
    ):
        load_model(tmp_path / "nothing")


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_truncated_file(tmp_path, kept):
    save_model(make(), tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "cut").write_bytes(content[:kept])
    with pytest.raises(InputError, match=r"cut: not a whole safetensors file .*; was it cut short\?"):
        load_model(tmp_path / "cut")


def test_not_a_model_file(tmp_path):
    (tmp_path / "a.txt").write_text("hello, this is not a model at all")
    with pytest.raises(InputError, match=r"a\.txt: not a whole safetensors file"):
        load_model(tmp_path / "a.txt")


def test_foreign_safetensors_file(tmp_path):
    save_file({"weight": torch.ones(2)}, tmp_path / "a")
    with pytest.raises(InputError, match="a: a safetensors file, but not one that lln wrote"):
        load_model(tmp_path / "a")


def with_header(path, tensors=None, **changes):
    network = make()
    header = {"format": 1, "lln": "0.1.0", "model": "lens", "config": network.config(), **changes}
    save_file(tensors or dict(network.state_dict()), path, metadata={"lln": json.dumps(header)})


def test_newer_format(tmp_path):
    with_header(tmp_path / "a", format=2, lln="9.0")
    with pytest.raises(InputError, match=r"a: written by lln 9\.0 in format 2, this lln .* up to format 1; update lln"):
        load_model(tmp_path / "a")


def test_tensors_that_do_not_fit_the_configuration(tmp_path):
    with_header(tmp_path / "a", config={**make().config(), "width": 6})
    with pytest.raises(InputError, match="a: its tensors and its configuration do not fit together"):
        load_model(tmp_path / "a")
    with_header(tmp_path / "b", tensors={"coefficients": torch.ones(1)})
    with pytest.raises(InputError, match="b: its tensors and its configuration do not fit together"):
        load_model(tmp_path / "b")


def test_unknown_model_or_option_in_a_file(tmp_path):
    with_header(tmp_path / "a", model="lenz")
    with pytest.raises(InputError, match="unknown model 'lenz'; did you mean 'lens'"):
        load_model(tmp_path / "a")
    with_header(tmp_path / "b", config={**make().config(), "colour": 1})
    with pytest.raises(InputError, match="model 'lens' has no option 'colour'"):
        load_model(tmp_path / "b")


def test_a_header_that_is_not_json(tmp_path):
    save_file(dict(make().state_dict()), tmp_path / "a", metadata={"lln": "{broken"})
    with pytest.raises(InputError, match="a: its lln configuration is damaged"):
        load_model(tmp_path / "a")
    save_file(dict(make().state_dict()), tmp_path / "b", metadata={"lln": "{}"})
    with pytest.raises(InputError, match="b: its lln configuration is damaged"):
        load_model(tmp_path / "b")


def test_only_registered_networks_can_be_saved(tmp_path):
    class Mine(LensNetwork):
        pass

    with pytest.raises(InputError, match="Mine is not a registered network"):
        save_model(Mine(3, 2, width=2, depth=1), tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [{"width": 10**9}, {"depth": 10**12}, {"n_in": 10**10}, {"basis": 10**11}, {"width": "4"}, {"depth": None}],
)
def test_a_configuration_beyond_its_tensors_takes_no_memory(tmp_path, change):
    with_header(tmp_path / "a", config={**make().config(), **change})
    with pytest.raises(InputError, match=r"a: ") as caught:
        load_model(tmp_path / "a")
    assert "allocate" not in str(caught.value)


def test_a_newer_format_that_does_not_say_by_whom(tmp_path):
    header = {"format": 2, "model": "lens", "config": {}}
    save_file(dict(make().state_dict()), tmp_path / "a", metadata={"lln": json.dumps(header)})
    with pytest.raises(InputError, match="a: written by lln None in format 2"):
        load_model(tmp_path / "a")


def test_a_header_nested_too_deeply(tmp_path):
    save_file(dict(make().state_dict()), tmp_path / "a", metadata={"lln": "[" * 100_000})
    with pytest.raises(InputError, match="a: its lln configuration is damaged"):
        load_model(tmp_path / "a")
