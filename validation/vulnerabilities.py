"""Known vulnerabilities in the versions that constraints.txt pins, asked for with pip-audit (`make security`).

Exit code 0: every version was looked up and none has a known vulnerability; 1: one has; 2: some or all could not be
looked up, because the service cannot be reached from here. What was not looked up is never called safe.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SERVICES = ("pypi", "osv")


class Verdict(NamedTuple):
    """What to say, and the exit code that says the same."""

    lines: list[str]
    code: int


def verdict(service: str, document: dict[str, Any]) -> Verdict:
    """What pip-audit's report in JSON means."""
    entries = document["dependencies"]
    skipped = [entry["name"] for entry in entries if "skip_reason" in entry]
    lines, count = [], len(entries) - len(skipped)
    for entry in entries:
        for fault in entry.get("vulns", ()):
            mended = ", ".join(fault["fix_versions"]) or "no version yet"
            lines.append(f"{entry['name']} {entry['version']}: {fault['id']}, mended in {mended}")
    found = len(lines)
    lines.append(f"{service}: {count} of {len(entries)} pinned versions looked up, {found} known vulnerabilities")
    if found:
        return Verdict(lines, 1)
    if skipped:
        some = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        lines.append(f"not looked up, since {service} did not answer for them: {some}")
        return Verdict(lines, 2)
    return Verdict(lines, 0)


def ask(service: str) -> dict[str, Any] | str:
    """pip-audit's report, or why there is none."""
    words = [sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "constraints.txt"), "--no-deps"]
    words += ["--disable-pip", "--format", "json", "--progress-spinner", "off", "--vulnerability-service", service]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["no answer"])[-1][:200]
    return report


def main() -> int:
    """Ask one service after the other until one has looked up everything."""
    found = Verdict([], 2)
    for service in SERVICES:
        report = ask(service)
        if isinstance(report, str):
            print(f"{service}: cannot be reached ({report})")
            continue
        found = verdict(service, report)
        print(*found.lines, sep="\n")
        if found.code < 2:
            break
    if found.code == 2:
        print("The dependencies were NOT checked in full; run this again where a vulnerability service can be reached.")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
