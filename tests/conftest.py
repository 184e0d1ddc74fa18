"""Options of the whole suite."""

import signal

import pytest


def pytest_configure():
    # A run in the background of a shell inherits an ignored Ctrl-C, and hands it on to what the tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
