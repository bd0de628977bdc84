# SPDX-License-Identifier: BSD-2-Clause
"""No system call stands on the way of a small message while both ends poll."""
import shutil
import subprocess

import pytest

from harness import DEVICE
import syscalls

pytestmark = pytest.mark.alone

PER_MESSAGE = 0.05


def skip_without_strace():
    if not shutil.which('strace'):
        pytest.skip('there is no strace')
    if subprocess.run(['strace', '-o', '/dev/null', 'true'], check=False).returncode != 0:
        pytest.skip('strace may not trace here')


@pytest.mark.parametrize('end', ['server', 'client'])
def test_small_send_makes_no_system_call(runner, tmp_path, end):
    skip_without_strace()
    argv = ['ib_send_lat', '-d', DEVICE, '-F', '-s', 8]
    counts = []
    # An end that may not run does not poll, and is woken up by system calls: the best of three.
    while not counts or (min(counts) >= PER_MESSAGE and len(counts) < 3):
        count, yields = syscalls.per_message(runner, argv, end, tmp_path)
        print(f'{count:.4f} system calls a message; yielded {yields:.4f} times while waiting')
        counts.append(count)
    assert min(counts) < PER_MESSAGE, f'{counts} system calls a message'


def test_write_wakes_nobody(runner, tmp_path):
    """The target of ib_write_bw sleeps, and has nothing to do with what is written into its memory."""
    skip_without_strace()
    argv = ['ib_write_bw', '-d', DEVICE, '-F', '-s', 8]
    wakes, _ = syscalls.per_message(runner, argv, 'client', tmp_path, 'write')
    print(f'{wakes:.4f} wake-ups a message')
    assert wakes < 0.01


def test_locks_are_prepared_at_open(runner, tmp_path):
    """A thread that must sleep for a lock has others locked already: it does not register the process then."""
    skip_without_strace()
    trace = tmp_path / 'trace'
    runner.run('strace', '-f', '-o', trace, '-e', 'trace=membarrier', 'ibv_devinfo', '-d', DEVICE)
    assert 'REGISTER_PRIVATE_EXPEDITED' in trace.read_text(), trace.read_text()
