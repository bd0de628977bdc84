"""Fixtures of the integration tests: real programs, over the build in VERBATIM_BUILD."""
import itertools
import os

import pytest

import harness

counter = itertools.count(1)
TABLES = pytest.StashKey()  # {title: lines} to print after all tests


def pytest_configure(config):
    config.addinivalue_line('markers', 'asan: also run with the sanitizers')
    config.addinivalue_line('markers', 'long: takes minutes; run by `make test-long` only')
    config.stash[TABLES] = {}


def pytest_terminal_summary(terminalreporter, config):
    for title, lines in config.stash[TABLES].items():
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope='session', autouse=True)
def built():
    for path in (harness.VERBATIM, harness.VERIFY):
        if not path.exists():
            pytest.exit(f'{path} does not exist: build first, or set VERBATIM_BUILD', returncode=1)


@pytest.fixture(scope='session')
def session_runner():
    runner = harness.Runner(f'test-{os.getpid()}')
    yield runner
    left = runner.close()
    assert not left, f'left behind at the end of all tests: {left}'


@pytest.fixture
def runner(session_runner):
    """Programs of the session's namespace; what a test leaves running is ended with it."""
    yield session_runner
    session_runner.release(*list(session_runner.programs))


@pytest.fixture
def fresh_runner():
    """Makes a runner of a namespace of its own, in which no daemon runs yet."""
    made = []

    def make(**options):
        made.append(harness.Runner(f'test-{os.getpid()}-{next(counter)}', **options))
        return made[-1]
    yield make
    left = {}
    for runner in made:
        left.update(runner.close())
    assert not left, f'left behind: {left}'


@pytest.fixture
def port():
    return harness.free_port()
