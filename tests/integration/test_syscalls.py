# SPDX-License-Identifier: BSD-2-Clause
"""No system call stands on the way of a small message while both ends poll. Between hosts many share one."""
import shutil
import subprocess

import pytest

from harness import DEVICE, free_port
import syscalls

pytestmark = pytest.mark.alone

PER_MESSAGE = 0.01


def skip_without_strace():
    if not shutil.which('strace'):
        pytest.skip('there is no strace')
    if subprocess.run(['strace', '-o', '/dev/null', 'true'], check=False).returncode != 0:
        pytest.skip('strace may not trace here')


@pytest.mark.parametrize('end', ['server', 'client'])
def test_small_send_makes_no_system_call(runner, tmp_path, end):
    skip_without_strace()
    argv = ['ib_send_lat', '-d', DEVICE, '-F', '-s', 8]
    # How long all takes differs by the machine. So what the clock makes the library do does not count.
    count, yields = syscalls.per_message(runner, argv, end, tmp_path, syscalls.BUT_BY_THE_CLOCK, threads=False)
    print(f'{count:.4f} system calls a message; yielded {yields:.4f} times while waiting')
    assert count < PER_MESSAGE


def test_write_wakes_nobody(runner, tmp_path):
    """The target of ib_write_bw sleeps, and has nothing to do with what is written into its memory."""
    skip_without_strace()
    argv = ['ib_write_bw', '-d', DEVICE, '-F', '-s', 8]
    wakes, _ = syscalls.per_message(runner, argv, 'client', tmp_path, 'write')
    print(f'{wakes:.4f} wake-ups a message')
    assert wakes < 0.01


UD_COUNT = 5000


@pytest.mark.network
@pytest.mark.parametrize('argv, end', [
    # datagrams have no flow control: there is a receive for each from the beginning
    (['ib_send_bw', '-c', 'UD', '-s', 64, '-r', UD_COUNT], 'client'),
    (['ib_send_bw', '-s', 64], 'client'),
    (['ib_write_bw', '-s', 8], 'client'),
    (['ib_read_bw', '-s', 8], 'client'),
    (['ib_read_bw', '-s', 8], 'server'),
    (['ib_atomic_bw'], 'client'),
], ids=['datagrams', 'sends', 'writes', 'reads', 'responses', 'atomics'])
def test_small_messages_between_hosts_leave_together(cables, argv, end):
    """Posted in a row, they share GSO batches."""
    cable = cables(1500)
    argv = [*argv, '-d', cable.a.device, '-x', 0, '-F']
    most = UD_COUNT if 'UD' in argv else syscalls.MANY
    sends = syscalls.sends_per_message(cable, argv, end, most)
    print(f'{sends:.3f} sends a message')
    assert sends < 0.25


@pytest.mark.network
def test_a_small_read_costs_the_responder_no_copy_by_the_kernel(cables, tmp_path):
    """It loads from its own mapping of what has migrated."""
    skip_without_strace()
    cable = cables(1500)
    port, trace = free_port(), tmp_path / 'trace'
    argv = ['ib_read_bw', '-s', 8, '-d', cable.a.device, '-x', 0, '-F', '-p', port, '-n', syscalls.MANY]
    # only calls of these stop the program
    traced = ['strace', '-f', '--seccomp-bpf', '-e', 'trace=process_vm_readv,pwrite64,pwritev', '-o', trace]
    cable.b.pair([*traced, *argv], [*argv, cable.b.address], port, seconds=60, peer=cable.a)
    calls = trace.read_text().count('(')
    assert calls < syscalls.MANY / 10, f'{calls} calls for {syscalls.MANY} READs'


def test_locks_are_prepared_at_open(runner, tmp_path):
    """A thread that must sleep for a lock has others locked already: it does not register the process then."""
    skip_without_strace()
    trace = tmp_path / 'trace'
    runner.run('strace', '-f', '-o', trace, '-e', 'trace=membarrier', 'ibv_devinfo', '-d', DEVICE)
    assert 'REGISTER_PRIVATE_EXPEDITED' in trace.read_text(), trace.read_text()
