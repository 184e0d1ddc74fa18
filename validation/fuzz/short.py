"""A few cases of every reader in one process, for the tests: ``python -m validation.fuzz.short CASES SEED FOLDER``.

Prints a line of JSON for each reader. The engines share the cases as in a whole run; the guided one is left out.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from validation.fuzz.campaign import SHARES, Row
from validation.fuzz.readers import READERS, ready, write_seeds
from validation.fuzz.worker import MUTATED, PROPERTIES, Session, Task, mutated, properties


def main() -> None:
    """The command."""
    cases, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    write_seeds(folder / "seeds")
    engines = {MUTATED: mutated, PROPERTIES: properties}
    for name in READERS:
        row = Row(name)
        place = folder / name
        place.mkdir()
        for engine, work in engines.items():
            count = round(cases * SHARES[engine] / sum(SHARES[one] for one in engines))
            task = Task(name, engine, seed, 0, count, str(folder / "seeds"), str(place), str(folder / "found"))
            session, told = Session(task), io.StringIO()
            with ready(session.reader):
                session.warm()
                with contextlib.redirect_stdout(told):
                    work(session)
            for line in told.getvalue().splitlines():
                row.hear(json.loads(line), engine)
        print(json.dumps({**row.record(), "texts": [one["text"] for one in row.findings]}), flush=True)


if __name__ == "__main__":
    main()
