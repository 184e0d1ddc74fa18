"""The database of a search: an Optuna study behind any storage URL. Needs the extra `search`."""

from __future__ import annotations

import os
import random
import re
import secrets
import sqlite3
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lln.core.canonical import digest
from lln.core.errors import InputError, ask_for_memory, reason
from lln.core.safe_files import locked, output_folder

RETRY, INTERRUPTED, SUM, DEFAULTS = "retry_of", "interrupted", "sum", "defaults"
_SQLITE = "sqlite:///"
_BUSY_SECONDS = 60
_TO_OPEN = 3 << 24  # bytes: with less, an import behind a new storage may never end
_MADE_MEANWHILE = ("already exists", "UNIQUE constraint", "duplicate key", "locked")  # texts in errors of the drivers
_PASSWORD = re.compile(
    r"(?<=://)(?P<user>[^/?#@:]*):(?P<word>.*)@(?=[^@]*$)|(?<=[?&])(?P<key>password|passwd|pwd|token)=(?P<value>[^&]*)"
)


def optuna() -> Any:
    """The package, or one sentence about how to get it."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError("a search needs Optuna, which is not installed; pip install 'lln[search]'") from None
    return optuna


def storage_url(storage: str | os.PathLike[str]) -> str:
    """A storage URL as it is; anything else names a SQLite file, whose folder is made."""
    text = os.fspath(storage)
    if "://" in text:
        return text
    path = Path(text)
    output_folder(path.parent)
    return f"{_SQLITE}{path.resolve()}"


def without_password(url: str, text: str | None = None) -> str:
    """`text`, by default the URL itself, with the passwords of the storage URL replaced by stars.

    >>> without_password("postgresql://me:secret@host/db?password=other")
    'postgresql://me:***@host/db?password=***'
    """
    said = url if text is None else text
    for match in _PASSWORD.finditer(url):
        word = match["word"] or match["value"]
        said = said.replace(word, "***").replace(unquote(word), "***") if word else said
    return said


@contextmanager
def open_storage(url: str) -> Iterator[Any]:
    """Open the storage behind `url`, with Optuna's log silenced; its connections are closed at the end.

    Errors of the database driver are raised as an OSError that names the storage.
    """
    library = optuna()
    ask_for_memory(_TO_OPEN)
    from sqlalchemy.exc import SQLAlchemyError

    before = library.logging.get_verbosity()
    library.logging.set_verbosity(library.logging.ERROR)
    try:
        try:
            storage = _opened(library, url)
        except MemoryError:
            raise
        except Exception as error:  # whatever the database's own driver raises
            said = f"{url}: cannot be opened as a search's storage ({reason(error)})"
            raise InputError(
                f"{without_password(url, said)}; expected a SQLite file or a database URL, as in "
                "postgresql://user@host/name"
            ) from None  # the driver's own error may hold the password
        try:
            yield storage
        except (SQLAlchemyError, library.exceptions.StorageInternalError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            said = f"{url}: the storage of the search failed ({reason(cause)}); its trials can be resumed"
            raise OSError(without_password(url, said)) from None
        finally:
            storage.remove_session()
            storage.engine.dispose()
            _forget_statements(storage)
            release(url)
    finally:
        library.logging.set_verbosity(before)


def _opened(library: Any, url: str) -> Any:
    """Optuna's storage. Processes that open a new one together make the same tables: the second one tries again."""
    options = {"connect_args": {"timeout": _BUSY_SECONDS}} if url.startswith("sqlite") else None
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return library.storages.RDBStorage(url, engine_kwargs=options)
        except Exception as error:
            said = f"{error} {error.__cause__}"
            if not any(words in said for words in _MADE_MEANWHILE) or time.monotonic() > deadline:
                raise
            time.sleep(0.05 + 0.2 * random.random())


def _forget_statements(storage: Any) -> None:
    """Drop what was compiled for a closed storage; SQLAlchemy would keep it with Optuna's tables."""
    base = getattr(sys.modules.get("optuna.storages._rdb.models"), "BaseModel", None)
    for mapper in base.registry.mappers if base is not None else ():
        kept = getattr(mapper, "_compiled_cache", {})
        for key in list(kept):
            if any(part is storage.engine.dialect for part in key):
                kept.pop(key, None)


def refuse_damaged(url: str) -> None:
    """Refuse a SQLite file whose pages or indices do not agree with each other."""
    path = _sqlite_file(url)
    if path is None or not path.is_file():
        return
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as connection:
        try:
            said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            locked = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            said = "ok" if locked else str(error)  # another process is writing, so the file is sound
    if said != "ok":
        raise InputError(
            f"{path}: not a whole SQLite file ({' '.join(said.split())}); restore a copy, or name another storage"
        )


def seal(trial: Any, values: Mapping[str, float]) -> None:
    """Store a checksum of a trial's options and results before it counts as finished."""
    trial.set_user_attr(SUM, digest({"params": trial.params, "values": list(values.values())}))


def finished(study: Any) -> list[Any]:
    """All trials of `study`; InputError if one of those that ended does not match its checksum."""
    try:
        trials: list[Any] = study.get_trials(deepcopy=False)
        sealed = [one for one in trials if one.state.name in ("COMPLETE", "PRUNED") and SUM in one.user_attrs]
        values = [one.values if one.state.name == "COMPLETE" else [] for one in sealed]
        sums = [digest({"params": one.params, "values": had}) for one, had in zip(sealed, values, strict=True)]
        broken = [one.number for one, right in zip(sealed, sums, strict=True) if one.user_attrs[SUM] != right]
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"the search {study.study_name!r} cannot be read from its storage, which is damaged"
        ) from error
    if broken:
        raise InputError(
            f"trial {broken[0]} of the search {study.study_name!r} does not match its checksum: its storage is "
            "damaged; restore a copy, or name another storage"
        )
    return trials


def keep_defaults(study: Any, values: Mapping[str, float]) -> None:
    """Store the scores of the default options with the study: a trial of its own would change what is proposed."""
    study.set_user_attr(DEFAULTS, {"values": dict(values), SUM: digest(dict(values))})


def defaults(study: Any) -> dict[str, float] | None:
    """The stored scores of the default options; None if there are none, or if they do not match their checksum."""
    kept = study.user_attrs.get(DEFAULTS)
    if not isinstance(kept, dict) or not isinstance(kept.get("values"), dict):
        return None
    return kept["values"] if kept.get(SUM) == digest(kept["values"]) else None


def begin(storage: Any, name: str, objectives: Sequence[str], digest: str, resume: bool) -> Any:
    """The study `name`: a new one, or with `resume` the stored one if it has the same objectives and data."""
    library = optuna()
    asked = {"objectives": list(objectives), "data": digest}
    if not resume and name in library.get_all_study_names(storage):
        found = library.load_study(study_name=name, storage=storage)
        if _has_trials(found):
            raise InputError(
                f"the storage already has a search called {name!r}; resume it (--resume) or give another name"
            )
        # It was refused before its first trial ended, unless another process is beginning the same one now.
        if found.trials or any(found.user_attrs.get(key, value) != value for key, value in asked.items()):
            library.delete_study(study_name=name, storage=storage)
    study = library.create_study(
        storage=storage, study_name=name, directions=["minimize"] * len(objectives), load_if_exists=True
    )
    if not _has_trials(study):  # it may have been interrupted between the two
        for key in asked.keys() - study.user_attrs.keys():
            study.set_user_attr(key, asked[key])
    for key, value in asked.items():
        if study.user_attrs.get(key) != value:
            raise InputError(
                f"the search {name!r} was started with other {key} ({study.user_attrs.get(key)}, now {value}); "
                "give the same, or another name"
            )
    return study


def _has_trials(study: Any) -> bool:
    """Whether a study holds work: a trial that ended well, was interrupted, or may still run."""
    failed = optuna().trial.TrialState.FAIL
    return any(t.state != failed or INTERRUPTED in t.user_attrs for t in study.get_trials(deepcopy=False))


def load(storage: Any, name: str, seed: int) -> Any:
    """The study `name` for one more trial, proposed by a sampler of its own seed."""
    library = optuna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", library.exceptions.ExperimentalWarning)
        # `constant_liar` keeps parallel workers from proposing the same trial.
        sampler = library.samplers.TPESampler(seed=seed % 2**32, multivariate=True, constant_liar=True)
    pruner = library.pruners.MedianPruner(n_startup_trials=4, n_min_trials=3)
    return library.load_study(study_name=name, storage=storage, sampler=sampler, pruner=pruner)


def retry_lost(study: Any, url: str) -> int:
    """Fail the trials whose process has ended, and queue them and interrupted ones again; returns how many."""
    states = optuna().trial.TrialState
    trials = study.get_trials(deepcopy=False)
    retried = {trial.user_attrs.get(RETRY) for trial in trials}
    lost = [trial for trial in trials if trial.state == states.RUNNING and gone(trial, url)]
    for trial in lost:
        study.tell(trial.number, state=states.FAIL)
    lost += [trial for trial in trials if trial.state == states.FAIL and INTERRUPTED in trial.user_attrs]
    again = [trial for trial in lost if trial.number not in retried]
    for trial in again:
        study.enqueue_trial(trial.params, user_attrs={RETRY: trial.number})
    return len(again)


OWNER, BEAT = "owner", "beat"
SILENT_SECONDS = 600.0

_held: dict[tuple[int, str], tuple[str, int]] = {}  # by process and database: the owner's name and its open lock


def own(trial: Any, url: str) -> None:
    """Store which process runs `trial`, and that it runs now."""
    trial.set_user_attr(OWNER, _name(url))
    trial.set_user_attr(BEAT, time.time())


def gone(trial: Any, url: str) -> bool:
    """Whether the owner of a running trial has ended."""
    owner = trial.user_attrs.get(OWNER)
    if not isinstance(owner, str):
        return True
    database = _sqlite_file(url)
    if database is not None and owner.startswith("lock-"):
        return not _is_held(_lock_file(database, owner))
    return time.time() - float(trial.user_attrs.get(BEAT, 0.0)) > SILENT_SECONDS


def release(url: str) -> None:
    """Give up this process's lock on a database; its trials have ended."""
    held = _held.pop((os.getpid(), url), None)
    database = _sqlite_file(url)
    if held is not None and database is not None:
        _lock_file(database, held[0]).unlink(missing_ok=True)
        os.close(held[1])


def _name(url: str) -> str:
    key, database = (os.getpid(), url), _sqlite_file(url)
    if key in _held:
        return _held[key][0]
    token = secrets.token_hex(8)
    if database is None:
        return f"beat-{token}"
    name = f"lock-{token}"
    lock = os.open(_lock_file(database, name), os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
    if not locked(lock):  # this file system has no locks
        os.close(lock)
        _lock_file(database, name).unlink(missing_ok=True)
        return f"beat-{token}"
    _held[key] = (name, lock)
    return name


def _is_held(path: Path) -> bool:
    """Whether a process holds the lock file; a lock file without an owner is removed."""
    try:
        lock = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        free = locked(lock)
        if free:
            path.unlink(missing_ok=True)
        return not free
    finally:
        os.close(lock)


def _sqlite_file(url: str) -> Path | None:
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def _lock_file(database: Path, owner: str) -> Path:
    return database.with_name(f".{database.name[:100]}.{''.join(c for c in owner if c.isalnum() or c == '-')}")
