# SPDX-License-Identifier: BSD-2-Clause
"""A process with many peers: no answer is slept over, whichever of them it comes from, and however long
that one was silent. tests/bench/crowd, which asks random peers after random pauses.
"""
import json
import pathlib
import subprocess

import pytest

from harness import BUILD, DEVICE, SLOWER, wait_until
from test_daemon import as_nobody

CROWD = BUILD / 'tests/bench/crowd'


@pytest.mark.parametrize('seed, peers', [(1, 2), (2, 8), (3, 40)])
def test_answers(runner, seed, peers):
    assert '2000 answers' in runner.run(CROWD, '--check', seed, DEVICE, peers, seconds=60)


def test_everybody_exchanges(runner):
    values = json.loads(runner.run(CROWD, '--all', DEVICE, 11, seconds=60))
    assert values['all'] and values['peers'] == 11


@pytest.mark.parametrize('user', [list, as_nobody], ids=['own', 'nobody'])
def test_daemon_with_few_descriptors(runner, user):
    """More pairs talk than verbatimd, a daemon of its own with the same limit, can keep descriptors for. No request
    waits for a time-out, which is 17 s, as it would if its QP held that the peer had ended.
    """
    values = json.loads(runner.run(CROWD, '--all', DEVICE, 12, seconds=60, before=(*user(), 'prlimit', '--nofile=110:110'),
                                   env={'VERBATIM_NAMESPACE': f'{runner.namespace}-few-{user.__name__}'}))
    assert values['all'] and values['peers'] == 12
    assert values['longest_ms'] < 15000 * SLOWER


def test_a_peer_costs(runner):
    """Addresses and descriptors of each further one: the first takes what a process needs anyway, such as a thread's heap.

    It is 1,528 KiB each time, so a limit of 1,536 is not a narrow one: two rings of 512, and 20 of each mapped again behind
    its end; of the arena 64 for the header, 64 for QPs and 320 for keys (memory/peer_arena.h); and four pages, which are the
    link's control words, the doorbell, and the first ones of arena and heap. The link's table of what is in flight, 128, is
    not among them: it comes from malloc, here from the heap of a thread, whose addresses are taken beforehand.
    """
    few, many = (json.loads(runner.run(CROWD, DEVICE, n, seconds=60)) for n in (4, 14))
    assert (many['peer_kib'][0] * 14 - few['peer_kib'][0] * 4) / 10 <= 1536
    assert many['fds'] - few['fds'] == 10


def most_fds(pids):
    return max(len(list(pathlib.Path(f'/proc/{pid}/fd').iterdir())) for pid in pids)


def test_descriptors_of_verbatimd(fresh_runner):
    """64 processes, 512 pairs: five a process, and those of the newest links."""
    runner = fresh_runner()
    crowd = runner.start(CROWD, '--near', 8, '--stay', DEVICE, 63, stdin=subprocess.PIPE)
    crowd.wait_for('"fds"', 60)
    # What waits in verbatimd for a client to read it is on top of that.
    wait_until(lambda: most_fds(runner.daemons()) <= 5 * 64 + 128 + 32, 10 * SLOWER, 'few descriptors')
    assert most_fds(runner.daemons()) > 5 * 64
    crowd.process.stdin.close()
    crowd.finish(60)


@pytest.mark.long
def test_memory_of_everybody(runner):
    """64 processes, between each two of which a ring has been full in both directions."""
    values = json.loads(runner.run(CROWD, '--all', '--fill', DEVICE, 63, seconds=300))
    assert values['total_mib'] <= 2048


@pytest.mark.long
def test_many_processes(runner):
    """1,000 processes, each connected to 32 others."""
    values = json.loads(runner.run(CROWD, '--near', 16, DEVICE, 999, seconds=300))
    assert values['peers'] == 999
