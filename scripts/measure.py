# SPDX-License-Identifier: BSD-2-Clause
"""Speeds of perftest over Verbatim, each beside what the machine itself can do. No tests: a speed
depends on the machine and on who else uses it; a ratio to a floor measured in the same run less so.

Both ends, and the floors, run on two processor cores of their own (tests/bench/cores.h).
"""
import contextlib
import os
import pathlib
import pwd
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests/integration'))

import harness  # noqa: E402  (found by the line above)

BENCH = harness.BUILD / 'tests/bench'

FLOOR_SECONDS = 60
NEAR_NS = 100  # a cache line, at most: the processors are near
ALIKE = 1.5   # the time of a cache line that has not changed
ATTEMPTS = 1  # in vain, for each run


def distance(line_ns):
    """Whether two processors are near or far, by what a cache line takes from one to the other. Those that share a
    cache take some tens of ns, those that do not 150 and more.
    """
    return 'near' if line_ns <= NEAR_NS else 'far'


def shared_caches(cpus):
    """Names of the caches that the system says two CPUs share; None if it says nothing. A virtual machine's may say
    what is not so.
    """
    found, names = list(pathlib.Path(f'/sys/devices/system/cpu/cpu{cpus[0]}/cache').glob('index*')), []
    for cache in found:
        try:
            level, sharing = ((cache / name).read_text().strip() for name in ('level', 'shared_cpu_list'))
            ranges = [[int(end) for end in part.split('-')] for part in sharing.split(',')]
        except (OSError, ValueError):
            return None
        if any(ends[0] <= int(cpus[1]) <= ends[-1] for ends in ranges):
            names.append(f'L{level}')
    return sorted(set(names)) if found else None


class Clock:
    """What the sections of a run take."""

    def __init__(self):
        self._begin = time.monotonic()
        self._sections = {}

    @contextlib.contextmanager
    def section(self, name):
        """Adds what its body takes to the section's time."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._sections[name] = self._sections.get(name, 0) + time.monotonic() - begin

    def seconds(self):
        """{section: whole seconds} of those that took any, and of all."""
        rounded = {name: round(each) for name, each in self._sections.items()}
        return {**{name: each for name, each in rounded.items() if each}, 'all': round(time.monotonic() - self._begin)}


class AsUser:
    """A runner whose programs are an ordinary user's."""

    def __init__(self, runner, user='nobody'):
        self._runner = runner
        entry = pwd.getpwnam(user)
        self._before = ('setpriv', f'--reuid={entry.pw_uid}', f'--regid={entry.pw_gid}', '--clear-groups')

    def pair(self, *argv, **options):
        return self._runner.pair(*argv, before=self._before, **options)

    def run(self, *argv, **options):
        return self._runner.run(*argv, before=self._before, **options)


class Floors:
    """What nothing on this machine can beat. Measured anew each time they are asked for."""

    def __init__(self):
        self.cpus = ('0', '1')
        self.lines = []  # all that line_ns returned

    @staticmethod
    def _told(program, *argv):
        try:
            done = subprocess.run([BENCH / program, *map(str, argv)], stdout=subprocess.PIPE, text=True,
                                  timeout=FLOOR_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{program}: not ended within {FLOOR_SECONDS} s') from None
        if done.returncode != 0:
            raise AssertionError(f'{program}: status {done.returncode}')
        return done.stdout

    def line_ns(self):
        """One-way time of a cache line between two processes on different cores."""
        *cpus, value = self._told('floor_line').split()
        self.cpus = tuple(cpus)
        self.lines.append(float(value))
        return self.lines[-1]

    def eventfd_ns(self):
        """One-way time to wake a process on another core that sleeps on an eventfd."""
        return float(self._told('floor_eventfd'))

    def wake_ns(self):
        """Time from the wake of a process on another core that sleeps in a futex to its answer, for which this one
        spins.
        """
        return float(self._told('floor_wake'))

    def memcpy_mib(self, size):
        """MiB/s of one thread that copies a buffer of this size again and again."""
        return float(self._told('floor_memcpy', size, 'own'))

    def memcpy_between_mib(self, size):
        """MiB/s of one thread that copies what another processor wrote just before."""
        return float(self._told('floor_memcpy', size))


def ucx_row(floors, test, size, iterations):
    """The columns of ucx_perftest's last row, over UCX's own shared memory (posix)."""
    env = {**os.environ, 'UCX_TLS': 'posix,self', 'UCX_LOG_LEVEL': 'error'}
    port = str(harness.free_port())
    argv = ['ucx_perftest', '-p', port, '-t', test, '-s', str(size), '-n', str(iterations), '-f']
    with subprocess.Popen(['taskset', '-c', floors.cpus[0], *argv[:3]], env=env,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            harness.wait_until(lambda: harness.is_listening(int(port)), 10, 'ucx_perftest')
            output = subprocess.run(['taskset', '-c', floors.cpus[1], *argv, harness.HOST], env=env, check=False,
                                    timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        finally:
            server.terminate()
    rows = [line.split() for line in output.splitlines() if re.match(r'^\s*\d+\s+[\d.]+\s', line)]
    if not rows:
        raise AssertionError(f'ucx_perftest reported nothing\n{output}')
    return [float(column) for column in rows[-1]]


def table_row(output):
    """The columns of the last row of perftest's table."""
    rows = [line.split() for line in output.splitlines() if re.match(r'^ \d+ +\d+ ', line)]
    if not rows:
        raise AssertionError(f'perftest reported nothing\n{output}')
    return rows[-1]


def run_perftest(runner, floors, program, *options):
    """Both ends, each on its own core; the columns of the client's last row."""
    port = harness.free_port()
    argv = [program, '-d', harness.DEVICE, '-F', '-p', port, *options]
    _, output = runner.pair(['taskset', '-c', floors.cpus[0], *argv],
                            ['taskset', '-c', floors.cpus[1], *argv, harness.HOST],
                            port, seconds=60)
    return table_row(output)


def latency_ns(runner, floors, program, *options):
    """The typical (median) one-way latency, in nanoseconds."""
    return float(run_perftest(runner, floors, program, *options)[4]) * 1000


def bandwidth_mib(runner, floors, program, *options):
    """The average bandwidth, in MiB/s."""
    return float(run_perftest(runner, floors, program, *options)[3])


def message_rate(runner, floors, program, *options):
    """Millions of messages a second."""
    return float(run_perftest(runner, floors, program, *options)[4])


def steady_pairs(measure, floor, runs, distance):
    """Floors and measured values, and how many of these pairs are steady; those come first.

    The host of a virtual machine moves its processors about, every few seconds on some: what they
    share takes up to five times as long then, which is the machine's doing and not that of what is
    measured. So `distance` is asked before, between and after, and a pair is steady if it was alike.
    That says nothing of what was in the middle of either half, and who is quick where processors are
    near is steady more often there. Without enough steady pairs the others have to do.
    """
    steady, others = [], []
    before = distance()
    while len(steady) < runs and len(others) < ATTEMPTS * runs:
        base, between, value, after = floor(), distance(), measure(), distance()
        seen = (before, between, after)
        (steady if max(seen) < ALIKE * min(seen) else others).append((base, value))
        before = after
    return steady + others[:runs - len(steady)], len(steady)


def medians(pairs):
    """Of what is measured, of its floor, and of their ratio."""
    return (statistics.median(value for _, value in pairs),
            statistics.median(value for value, _ in pairs),
            statistics.median(value / base for base, value in pairs))


def median_beside(measure, floor, runs):
    """The medians of runs, each next to its floor."""
    return medians([(floor(), measure()) for _ in range(runs)])


def median_steady(measure, floor, runs, distance):
    """The same of steady pairs, as far as there are; and how many there are."""
    pairs, steady = steady_pairs(measure, floor, runs, distance)
    return *medians(pairs), steady


def is_met(value, mark):
    """mark as '>= 1.2'."""
    relation, bound = mark.split()
    return value >= float(bound) if relation == '>=' else value <= float(bound)


def print_table(head, rows):
    """Columns as wide as their widest cell."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for number, row in enumerate(cells):
        print('  ' + '  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if number == 0:
            print('  ' + '  '.join('-' * width for width in widths).rstrip())
    sys.stdout.flush()
