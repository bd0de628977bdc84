"""Speeds of perftest over Verbatim, each beside what the machine itself can do. No tests: a speed
depends on the machine and on who else uses it; a ratio to a floor measured in the same run less so.

Both ends, and the floors, run on two processor cores of their own (tests/bench/cores.h).
"""
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests/integration'))

import harness  # noqa: E402  (found by the line above)

BENCH = harness.BUILD / 'tests/bench'


class Floors:
    """What nothing on this machine can beat. Measured anew each time they are asked for."""

    def __init__(self):
        self.cpus = ('0', '1')

    def line_ns(self):
        """One-way time of a cache line between two processes on different cores."""
        *cpus, value = subprocess.check_output([BENCH / 'floor_line'], text=True).split()
        self.cpus = tuple(cpus)
        return float(value)

    def memcpy_mib(self, size):
        """MiB/s of one thread that copies a buffer of this size again and again."""
        return float(subprocess.check_output([BENCH / 'floor_memcpy', str(size)], text=True))


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


def median_beside(measure, floor, runs):
    """Medians of what is measured, of its floor, and of their ratio; run by run, next to it."""
    pairs = [(floor(), measure()) for _ in range(runs)]
    return (statistics.median(value for _, value in pairs),
            statistics.median(value for value, _ in pairs),
            statistics.median(value / base for base, value in pairs))


def print_table(head, rows):
    """Columns as wide as their widest cell."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for number, row in enumerate(cells):
        print('  ' + '  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if number == 0:
            print('  ' + '  '.join('-' * width for width in widths))
    sys.stdout.flush()
