# SPDX-License-Identifier: BSD-2-Clause
"""A program that sleeps for a completion uses no CPU, and wakes up when there is one."""
import time

import pytest

from harness import DEVICE, HOST, VERIFY, cpu_ticks

SECONDS = 2
TICKS = 2


def assert_idle(programs, seconds=SECONDS):
    before = [cpu_ticks(program.pid) for program in programs]
    time.sleep(seconds)
    for program, ticks in zip(programs, before):
        used = cpu_ticks(program.pid) - ticks
        assert used <= TICKS, f'{used} ticks in {seconds} s\n{program.report()}'


@pytest.mark.parametrize('how', ['get_event', 'poll'])
def test_blocked_program_is_idle(runner, port, how):
    argv = [VERIFY, 'block', '--port', port, '--sleep', how, '--hold-ms', SECONDS * 1000 + 3000]
    sleeper = runner.start_server(argv, port)
    sender = runner.start(*argv, HOST)
    sleeper.wait_for('blocked')
    sender.wait_for('holding')
    time.sleep(0.2)
    assert_idle([sleeper, sender])
    assert sleeper.status is None and 'woken' not in sleeper.output(), sleeper.report()
    sender.finish()
    assert 'woken' in sleeper.finish()


def test_passive_target_is_idle_after_traffic(runner, port):
    argv = [VERIFY, 'passive', '--port', port, '--count', 50, '--sizes', '8,4096,1048576']
    target = runner.start_server(argv, port)
    runner.start(*argv, HOST).finish()
    time.sleep(0.2)
    assert_idle([target])


def test_waiting_server_is_idle(runner, port):
    """Between opening the device and the first peer nothing has to be done."""
    server = runner.start_server(['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', port], port)
    time.sleep(0.2)
    assert_idle([server], seconds=1)
