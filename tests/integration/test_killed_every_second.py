# SPDX-License-Identifier: BSD-2-Clause
"""Programs of the connection manager go on while verbatimd is killed again and again: those who are connected
stay so, and each new connection is made soon, whenever that is.
"""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import threading
import time

import pytest

from conftest import TABLES
from harness import HOST, SLOWER
from test_cm import fresh, start_server  # noqa: F401, pylint: disable=unused-import
from test_rsockets import UNDER_MORE, start_redis

NEW_S = 1   # a new connection, whenever verbatimd was killed
# How long the next verbatimd waits for the processes of the last one (CM_SESSIONS_WAIT_MS), and until it looks: a connection
# that begins in this time meets that kill, too.
RETURN_S = 0.5
EVERY_S = 1
AT_ONCE = 10  # connections of cmtime
FOR_EVER = 1000000000
# Not among those that the clients are given. A verbatimd of its own has a port space of its own.
REDIS_PORT = 6379
PORT = 4000


def duration(do):
    since = time.monotonic()
    do()
    return time.monotonic() - since


class Killer:
    """Kills verbatimd every second, from entering it to leaving it."""

    def __init__(self, runner):
        self.runner = runner
        self.times = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        at = time.monotonic()
        while not self._end.wait(max(0, at - time.monotonic())):
            at += EVERY_S
            for pid in self.runner.daemons():
                os.kill(pid, signal.SIGKILL)
                self.times.append(time.monotonic())

    def between(self, since, until):
        return sum(since <= at <= until for at in self.times)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


class Rping:
    """A server that stays, a client that stays, and clients that come and go."""

    def __init__(self, runner, _):
        self.runner = runner
        self.lasting = [start_server(runner, ['rping', '-s', '-P', '-a', HOST])]
        self.lasting += [runner.start(*self.client(FOR_EVER, '-v'))]
        self.lasting[-1].wait_for('rdma-ping-2')

    def client(self, count, *options):
        return ['rping', '-c', '-a', HOST, '-C', count, '-V', *options]

    def connect(self):
        return duration(lambda: self.runner.run(*self.client(3)))


class Cmtime:
    """A server, and a client that makes some connections at once and says how long the longest took."""

    def __init__(self, runner, _):
        self.runner = runner
        self.lasting = []

    def connect(self):
        argv = ['cmtime', '-c', AT_ONCE]
        server = start_server(self.runner, argv)
        output = self.runner.run(*argv, '-s', HOST)
        assert 'failure' not in output, output
        self.runner.release(server)
        steps = dict(re.findall(r'^(\S[\w ]+?) *: +[\d.]+ +([\d.]+)', output, re.MULTILINE))
        return sum(float(steps[step]) for step in ('resolve addr', 'resolve route', 'connect')) / 1000


class Redis:
    """Over rsockets: a server, a client that asks and asks, and clients that come and go."""

    def __init__(self, runner, tmp_path):
        self.runner = runner
        server = start_redis(runner, REDIS_PORT, tmp_path)
        benchmark = runner.start(*UNDER_MORE, 'redis-benchmark', '-h', HOST, '-p', REDIS_PORT, '-t', 'set,get',
                                 '-n', FOR_EVER, '-c', 4, '-q')
        self.lasting = [server, benchmark]

    def ask(self, *words):
        return self.runner.run(*UNDER_MORE, 'redis-cli', '-h', HOST, '-p', REDIS_PORT, *words)

    def connect(self):
        return duration(lambda: self.ask('ping'))

    def asked(self):
        """How many requests the server has had."""
        return int(re.search(r'total_commands_processed:(\d+)', self.ask('info', 'stats'))[1])


def assert_lasting(programs):
    for program in programs:
        for lasting in program.lasting:
            assert lasting.status is None, lasting.report()


def tell(request, line):
    print(line)
    request.config.stash[TABLES].setdefault('connections', []).append(line)


def connect_beside(programs, seconds):
    """[(when it began, when it was over, how long it took)] of one connection after the other, of each of the
    programs, all beside each other.
    """
    end = time.monotonic() + seconds

    def connect(program):
        since = time.monotonic()
        took = program.connect()
        return since, time.monotonic(), took

    def connect_one(program):
        connections = [connect(program)]
        while time.monotonic() < end:
            connections.append(connect(program))
        return connections
    with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(connect_one, programs))


def slowest(connections):
    return max(took for _, _, took in connections)


# What the programs need for their start, and for each other, is checked while verbatimd is not killed. If a connection
# takes so long that verbatimd is killed again meanwhile it has as long again; likewise if it began while verbatimd was on
# its way back.
@pytest.mark.alone
@pytest.mark.parametrize('seconds, calm', [(5, 1), pytest.param(60, 5, marks=pytest.mark.soak)])
def test_every_second(request, fresh, tmp_path, seconds, calm):  # noqa: F811
    programs = [kind(fresh, tmp_path) for kind in (Rping, Cmtime, Redis)]
    before = connect_beside(programs, calm)
    asked = programs[-1].asked()
    with Killer(fresh) as killer:
        beside = connect_beside(programs, seconds)
    assert_lasting(programs)
    assert programs[-1].asked() > asked + 100 * seconds
    assert len(killer.times) >= seconds - 1
    for program, calm_ones, connections in zip(programs, before, beside):
        alone = slowest(calm_ones)
        line = (f'verbatimd killed {len(killer.times)} times: {len(connections)} connections of '
                f'{type(program).__name__}, the slowest {slowest(connections):.2f} s; before {alone:.2f} s')
        tell(request, line)
        for since, until, took in connections:
            kills = max(1, killer.between(since - RETURN_S, until))
            assert took < alone + kills * NEW_S * SLOWER, f'{took:.2f} s, {kills} kills; {line}'


# --------------------------------------------------------------------------------------------
# With all that is in its cgroup, as when a job ends or a service is stopped.

@contextlib.contextmanager
def new_cgroup():
    """A cgroup (version 2) of its own: its folder. What is in it is ended with it."""
    text = pathlib.Path('/proc/self/mounts').read_text(encoding='utf-8')
    mounts = [line.split() for line in text.splitlines()]
    places = [pathlib.Path(words[1]) for words in mounts if words[2] == 'cgroup2']
    if not places:
        pytest.skip('no cgroups of version 2 are mounted')
    group = places[0] / f'verbatim-test-{os.getpid()}'
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f'no cgroup can be made: {error}')
    try:
        if not (group / 'cgroup.kill').exists():
            pytest.skip('cgroup.kill is not there: Linux 5.14 has it')
        yield group
    finally:
        with contextlib.suppress(OSError):
            (group / 'cgroup.kill').write_text('1', encoding='ascii')
        for _ in range(500):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.01)


@pytest.mark.alone
def test_by_its_cgroup(fresh, tmp_path):  # noqa: F811
    with new_cgroup() as group:
        enter = ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
        first = start_server(fresh, ['rping', '-s', '-P', '-a', HOST, '-p', PORT], before=enter)
        (daemon,) = fresh.daemons()
        programs = [kind(fresh, tmp_path) for kind in (Rping, Cmtime, Redis)]
        before = connect_beside(programs, 0)
        assert fresh.daemons() == [daemon]
        members = (group / 'cgroup.procs').read_text(encoding='ascii').split()
        assert str(daemon) in members, members
        (group / 'cgroup.kill').write_text('1', encoding='ascii')
        for program, calm_one, connection in zip(programs, before, connect_beside(programs, 0)):
            alone, took = slowest(calm_one), slowest(connection)
            what = f'{type(program).__name__}: {took:.2f} s, {alone:.2f} s before'
            assert took < alone + NEW_S * SLOWER, what
        assert first.wait(5) == -signal.SIGKILL
        assert daemon not in fresh.daemons()
        assert_lasting(programs)
