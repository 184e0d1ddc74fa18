"""Scores of a comparison in one file, so that a comparison that was interrupted continues with the other models."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lln.core.atomic import whole_file
from lln.core.errors import InputError
from lln.forecaster.comparison.result import Score

_PLAIN = ("history", "parameters", "seconds", "note", "noisy", "parts")


class StoredScores:
    """The file of one comparison, identified by a digest of everything that its scores depend on.

    Args:
        path: the file; None stores nothing.
        asked: everything but the model that the scores depend on, as plain values.
    """

    def __init__(self, path: Path | None, asked: Mapping[str, Any]) -> None:
        self.path = path
        self.digest = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:32]
        self.scores = {} if path is None or not path.is_file() else self._read(path)

    def get(self, name: str) -> Score | None:
        """The stored score of one model, or None."""
        return self.scores.get(name)

    def put(self, score: Score) -> None:
        """Store one more score."""
        self.scores[score.name] = score
        if self.path is None:
            return
        arrays: dict[str, Any] = {}
        plain = {}
        for index, (name, one) in enumerate(self.scores.items()):
            arrays |= {f"errors{index}": one.errors, f"valid{index}": one.valid}
            plain[name] = {key: getattr(one, key) for key in _PLAIN}
        said = json.dumps({"format": 1, "digest": self.digest, "models": plain})
        with whole_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, said=np.array(said), **arrays)

    def _read(self, path: Path) -> dict[str, Score]:
        """The scores of an earlier run of the same comparison; none if the file is of another one, or damaged."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                said = json.loads(str(arrays["said"]))
                if said["digest"] != self.digest:
                    return {}
                return {
                    name: Score(
                        name,
                        arrays[f"errors{index}"],
                        arrays[f"valid{index}"],
                        **{**plain, "parts": tuple(plain["parts"])},
                    )
                    for index, (name, plain) in enumerate(said["models"].items())
                }
        except OSError as error:
            raise InputError(
                f"{path}: the checkpoint cannot be read ({error.strerror}); change its permissions or give another"
            ) from error
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return {}
