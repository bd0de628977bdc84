# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the integration tests: real programs, over the build in VERBATIM_BUILD."""
import ctypes
import itertools
import os
import signal
import subprocess

import pytest

import guest as guests
import harness
import netns

counter = itertools.count(1)
TABLES = pytest.StashKey()  # {title: lines} to print after all tests


CLONE_NEWNET = 0x40000000


def network_of_its_own():
    """For a worker of several: port 4791 of a network belongs to one daemon."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        pytest.exit(f'no network namespace for a worker: {os.strerror(ctypes.get_errno())}; '
                    'run without -n', returncode=1)
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)


def on_terminate(*_):
    raise KeyboardInterrupt('terminated')


def pytest_configure(config):
    # A run that is out of time is terminated, and has to end its programs, networks and guests, too.
    signal.signal(signal.SIGTERM, on_terminate)
    config.stash[TABLES] = {}
    if hasattr(config, 'workerinput') and os.geteuid() == 0:
        network_of_its_own()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """One worker has all tests with a guest: one guest at a time."""
    for item in items:
        if item.get_closest_marker('interop'):
            item.add_marker(pytest.mark.xdist_group('guest'))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call():
    """A test that finds in its middle that the machine lacks something is skipped."""
    outcome = yield
    if outcome.excinfo and isinstance(outcome.excinfo[1], netns.Unavailable):
        pytest.skip(str(outcome.excinfo[1]))


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
    harness.close_all(made)


@pytest.fixture
def port():
    return harness.free_port()


@pytest.fixture(scope='session')
def _cables():
    """{(mtu, options): Cable}, each made when it is needed first."""
    made = {}
    yield made
    harness.close_all(made.values())


@pytest.fixture(scope='session')
def guest_with():
    """guest_with(device, mtu=1500): a running guest with this RDMA device. One takes long to boot, and is kept for
    all tests until another MTU is wanted.
    """
    kept, left = [], {}

    def end():
        while kept:
            left.update(kept.pop().close())

    def get(device, mtu=1500):
        if kept and kept[0].mtu == mtu:
            try:
                kept[0].choose(device)
                return kept[0]
            except (AssertionError, subprocess.TimeoutExpired):
                pass  # a test has spoiled it: the next ones get another
        end()
        try:
            guests.build()
        except guests.Unavailable as reason:
            pytest.skip(str(reason))
        kept.append(guests.Guest(mtu).__enter__())
        kept[0].choose(device)
        return kept[0]
    yield get
    end()
    assert not left, f'left behind: {left}'


@pytest.fixture
def cables(_cables):
    """cables(mtu, segment=True): two hosts; what a test leaves running on them is ended with it.
    Options are those of netns.Cable.
    """
    def get(mtu, segment=True, **options):
        key = mtu, segment, *sorted(options.items())
        if key not in _cables:
            try:
                _cables[key] = netns.Cable(
                    mtu, segment, linger_ms=1000, **options)
            except netns.Unavailable as reason:
                pytest.skip(str(reason))
        return _cables[key]
    yield get
    for cable in _cables.values():
        for host in cable.hosts:
            host.release(*list(host.programs))
