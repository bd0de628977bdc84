# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 in the middle of traffic: the other end is told within 100 ms, nothing is left."""
import os
import pathlib
import re
import signal
import time

import pytest

from harness import BUILD, HOST, SLOWER, VERIFY, free_port, processes_of, wait_until

BOUND_MS = 100
RETRY_EXC, FLUSH = 12, 5


def start_stream(runner, port, op, *options, env=None):
    """(listening end, connecting end), both with traffic under way."""
    argv = [VERIFY, 'stream', '--port', port, '--op', op, *options]
    listening = runner.start_server(argv, port, env=env)
    connecting = runner.start(*argv, HOST, env=env)
    listening.wait_for('running')
    connecting.wait_for('running')
    time.sleep(0.1)
    return listening, connecting


def files_of(pid):
    """What the process has open or mapped that lives in a file system for temporary files."""
    found = set()
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            found.add(os.readlink(f'/proc/{pid}/fd/{fd}'))
        except FileNotFoundError:
            pass
    with open(f'/proc/{pid}/maps', encoding='utf-8') as maps:
        found.update(line.split(maxsplit=5)[5].strip() for line in maps if line.count('/') > 0)
    return {path for path in found
            if path.startswith(('/tmp/', '/dev/shm/', '/run/', '/var/tmp/'))
            and not path.endswith('(deleted)')
            and not path.startswith(f'{BUILD}/')}


def kill_and_time(victim):
    killed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    os.kill(victim.pid, signal.SIGKILL)
    return killed_ns


def told_after_ms(survivor, killed_ns):
    """When the survivor saw the first error, which is of the right kind."""
    survivor.wait_for('dead at_ns=', seconds=10)
    found = re.search(r'dead at_ns=(\d+) status=(\d+)', survivor.output())
    late_ms = (int(found[1]) - killed_ns) / 1e6
    print(f'told after {late_ms:.1f} ms with status {found[2]}')
    assert int(found[2]) in (RETRY_EXC, FLUSH), survivor.report()
    assert late_ms >= 0, f'the error came before the kill\n{survivor.report()}'
    return late_ms


def kill_one(runner, op, victim_name, *options):
    """Kills one end; how many milliseconds later the other one knew. It then ends by itself."""
    listening, connecting = start_stream(runner, free_port(), op, *options)
    victim, survivor = ((listening, connecting) if victim_name == 'listening'
                        else (connecting, listening))
    files = files_of(victim.pid)
    late_ms = told_after_ms(survivor, kill_and_time(victim))
    survivor.finish()
    assert not files, f'would be left behind: {files}'
    runner.release(victim, survivor)
    return late_ms


@pytest.mark.parametrize('options', [
    pytest.param([], id='polling'),
    pytest.param(['--events'], id='events'),
])
@pytest.mark.parametrize('victim_name', ['listening', 'connecting'])
@pytest.mark.parametrize('op, size', [
    pytest.param('send', 4096, marks=pytest.mark.asan),
    ('send', 8),
    ('send', 1 << 20),
    ('write', 4096),
    ('write', 1 << 20),
    ('read', 4096),
    ('read', 1 << 20),
    ('faa', 8),
])
def test_kill(runner, op, size, victim_name, options):
    late_ms = []
    # Where others keep all processors busy, the survivor may not run in time: the best of three.
    while not late_ms or (min(late_ms) > BOUND_MS * SLOWER and len(late_ms) < 3):
        late_ms.append(kill_one(runner, op, victim_name, '--sizes', size, *options))
    assert min(late_ms) <= BOUND_MS * SLOWER, f'told after {late_ms} ms'


@pytest.mark.alone
@pytest.mark.parametrize('op', ['send', 'write'])
def test_kill_while_verbatimd_is_stopped(fresh_runner, op):
    """verbatimd tells of no death then: the other end looks for itself, once a second."""
    runner = fresh_runner()
    listening, connecting = start_stream(runner, free_port(), op, '--sizes', 4096)
    daemons = runner.daemons()
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    try:
        late_ms = told_after_ms(connecting, kill_and_time(listening))
        connecting.finish()
    finally:
        for pid in daemons:
            os.kill(pid, signal.SIGCONT)
    assert daemons and late_ms <= (1000 + BOUND_MS) * SLOWER
    runner.release(listening, connecting)


def overwrite_rings(pid):
    """As a store through a wild pointer could; the first mapping of a link's file is not of its rings."""
    maps = pathlib.Path(f'/proc/{pid}/maps').read_text(encoding='utf-8')
    rings = [(int(begin, 16), int(end, 16)) for begin, end, offset in
             re.findall(r'^(\w+)-(\w+) rw-s (\w+) .*memfd:verbatim-link \(', maps, re.MULTILINE) if int(offset, 16)]
    assert rings, maps
    with open(f'/proc/{pid}/mem', 'r+b', buffering=0) as memory:
        for begin, end in rings:
            memory.seek(begin)
            assert memory.write(b'\xff' * (end - begin)) == end - begin


@pytest.mark.parametrize('op', ['send', 'write', 'read'])
def test_overwritten_rings(runner, op):
    """No message comes any more: both ends are told, by looks once a second."""
    ends = start_stream(runner, free_port(), op, '--sizes', 4096, env={'VERBATIM_EXPLAIN': '1'})
    since_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    overwrite_rings(ends[0].pid)
    for end in ends:
        assert told_after_ms(end, since_ns) <= (2000 + BOUND_MS) * SLOWER
        end.finish()
    # The end of the first may be what the other one sees first.
    assert any('was overwritten' in end.output() for end in ends)
    listening, connecting = start_stream(runner, free_port(), op, '--sizes', 4096)
    told_after_ms(connecting, kill_and_time(listening))
    connecting.finish()
    runner.release(*ends, listening, connecting)


def test_slots_of_the_dead_are_dropped(runner, port):
    listening, connecting = start_stream(runner, port, 'send')

    def pids():
        return {process['pid'] for process in runner.show()['processes']}
    assert {listening.pid, connecting.pid} <= pids()
    kill_and_time(connecting)
    connecting.wait(5)
    wait_until(lambda: connecting.pid not in pids(), 20, 'the slot of the dead process is dropped')
    listening.finish()
    wait_until(lambda: listening.pid not in pids(), 20, 'the slot of the other one, too')


@pytest.mark.asan
def test_both_ends_killed_leave_nothing(fresh_runner, port):
    runner = fresh_runner(linger_ms=300)
    listening, connecting = start_stream(runner, port, 'send')
    for program in (listening, connecting):
        os.kill(program.pid, signal.SIGKILL)
        program.wait(5)
    wait_until(lambda: not processes_of(runner.namespace), (0.3 + 5) * SLOWER,
               'no process is left, not even the daemon')


def test_the_next_pair_works(runner):
    """Slots and queues of the dead are as good as new."""
    for _ in range(3):
        listening, connecting = start_stream(runner, free_port(), 'send')
        kill_and_time(listening)
        connecting.finish()
        runner.release(listening, connecting)
