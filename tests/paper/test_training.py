import math

import pytest
import torch
from torch.utils.data import DataLoader

from lln.paper.training import TrainingRecipe, loader_order


def test_batches_come_in_the_order_of_a_data_loader_on_the_global_generator():
    torch.manual_seed(7)
    torch.randn(5)
    loader = DataLoader(torch.arange(10), batch_size=4, shuffle=True)
    epochs = [torch.cat(list(loader)) for _ in range(3)]
    source = torch.Generator().manual_seed(7)
    torch.randn(5, generator=source)
    for epoch in epochs:
        assert torch.equal(loader_order(10, source), epoch)


def test_six_epochs_of_1024_of_3000_pairs_are_eighteen_updates():
    for recipe, updates in ((TrainingRecipe(), 18), (TrainingRecipe(batch_size=64), 282)):
        assert recipe.epochs * len(torch.arange(3000).split(recipe.batch_size)) == updates


def test_the_cosine_is_stepped_once_an_epoch_and_the_constant_is_constant():
    recipe = TrainingRecipe(epochs=20, learning_rate=5e-4, schedule="cosine-to-tenth")
    assert recipe.rate(0) == 5e-4
    assert recipe.rate(10) == pytest.approx(2.75e-4)
    assert recipe.rate(19) == pytest.approx(5e-5 + 2.25e-4 * (1 + math.cos(0.95 * math.pi)))
    assert recipe.rate(20) == pytest.approx(5e-5)
    assert TrainingRecipe(learning_rate=1e-3).rate(5) == 1e-3
