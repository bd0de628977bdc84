# SPDX-License-Identifier: BSD-2-Clause
"""No system call stands on the way of a small message while both ends poll. Between hosts many share one."""
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


SENDS = 'sendmsg,sendmmsg'
UD_COUNT = 5000


@pytest.mark.network
@pytest.mark.parametrize('argv, end, calls', [
    # datagrams have no flow control: there is a receive for each from the beginning
    (['ib_send_bw', '-c', 'UD', '-s', 64, '-r', UD_COUNT], 'client', SENDS),
    (['ib_send_bw', '-s', 64], 'client', SENDS),
    (['ib_write_bw', '-s', 8], 'client', SENDS),
    (['ib_read_bw', '-s', 8], 'client', SENDS),
    (['ib_read_bw', '-s', 8], 'server', SENDS + ',process_vm_readv'),
    (['ib_atomic_bw'], 'client', SENDS),
], ids=['datagrams', 'sends', 'writes', 'reads', 'responses', 'atomics'])
def test_small_messages_between_hosts_leave_together(cables, tmp_path, argv, end, calls):
    """Posted in a row, they share GSO batches; and what a responder copies costs no system call."""
    skip_without_strace()
    cable = cables(1500)
    argv = [*argv, '-d', cable.a.device, '-x', 0, '-F']
    most = UD_COUNT if 'UD' in argv else syscalls.MANY
    counts = []
    # An end that may not run makes the other one's batches short: the best of three.
    while not counts or (min(counts) >= 0.5 and len(counts) < 3):
        count, _ = syscalls.per_message(None, argv, end, tmp_path, calls, cable, most)
        print(f'{count:.3f} system calls a message')
        counts.append(count)
    assert min(counts) < 0.5, f'{counts} system calls a message'


def test_locks_are_prepared_at_open(runner, tmp_path):
    """A thread that must sleep for a lock has others locked already: it does not register the process then."""
    skip_without_strace()
    trace = tmp_path / 'trace'
    runner.run('strace', '-f', '-o', trace, '-e', 'trace=membarrier', 'ibv_devinfo', '-d', DEVICE)
    assert 'REGISTER_PRIVATE_EXPEDITED' in trace.read_text(), trace.read_text()
