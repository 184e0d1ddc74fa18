"""Options of the whole suite."""

import signal

import pytest

from lln.core.registry import Registry


def pytest_configure():
    # A run in the background of a shell inherits an ignored Ctrl-C, and hands it on to what the tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _registrations_end_with_the_test(monkeypatch):
    """What a test registers, or a page of the documentation that it runs, is unknown to the next test."""
    register, before = Registry.register, []

    def remembered(registry, name, item):
        before.append((registry, dict(registry._items)))
        return register(registry, name, item)

    monkeypatch.setattr(Registry, "register", remembered)
    yield
    for registry, items in reversed(before):
        registry._items = items


def pytest_addoption(parser):
    parser.addoption(
        "--no-skips", action="store_true", help="a skipped test fails the run (where everything is installed)"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and session.config.getoption("--no-skips") and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"{len(skipped)} tests were skipped, and this run allows none (--no-skips)", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
