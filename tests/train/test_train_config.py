import pytest
from pydantic import ValidationError

from lln.core.errors import InputError
from lln.train import TrainConfig


def test_the_defaults_are_the_paper_s_six_epochs():
    config = TrainConfig()
    assert (config.epochs, config.batch_size, config.learning_rate, config.optimizer) == (6, 64, 1e-3, "adam")


def test_it_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        TrainConfig().epochs = 7


def test_the_cosine_runs_from_the_rate_to_zero():
    config = TrainConfig(learning_rate=2.0, schedule="cosine")
    assert [config.rate(update, 4) for update in (0, 2, 4)] == pytest.approx([2.0, 1.0, 0.0])
    assert TrainConfig(learning_rate=2.0).rate(3, 4) == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epocs": 3}, "the training configuration has no option 'epocs'; did you mean 'epochs'?"),
        ({"epochs": 0}, "epochs of the training configuration must be greater than or equal to 1, got 0"),
        ({"epochs": 2.5}, "epochs of the training configuration must be a valid integer, got 2.5"),
        ({"epochs": "6"}, "epochs of the training configuration must be a valid integer, got '6'"),
        ({"learning_rate": -1e-3}, "learning_rate of the training configuration must be greater than 0, got -0.001"),
        (
            {"learning_rate": float("nan")},
            "learning_rate of the training configuration must be a finite number, got nan",
        ),
        ({"optimizer": "sgd"}, "optimizer of the training configuration must be 'adam' or 'adamw', got 'sgd'"),
        ({"schedule": "step"}, "schedule of the training configuration must be 'constant' or 'cosine', got 'step'"),
        ({"clip": 0.0}, "clip of the training configuration must be greater than 0, got 0.0"),
    ],
)
def test_bad_options_get_a_sentence(options, message):
    with pytest.raises(InputError) as caught:
        TrainConfig(**options)
    assert message in str(caught.value)
