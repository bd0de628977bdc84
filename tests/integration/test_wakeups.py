# SPDX-License-Identifier: BSD-2-Clause
"""A message to a program that sleeps in ibv_get_cq_event costs one wake-up: its peer wakes the program's thread."""
import pathlib

import pytest

from harness import DEVICE, HOST, free_port

pytestmark = pytest.mark.alone


def sleeps(pid):
    """How often each thread of the process has slept, by its name."""
    counts = {}
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        status = dict(line.split(':\t', 1) for line in (task / 'status').read_text().splitlines() if ':\t' in line)
        counts[status['Name']] = int(status['voluntary_ctxt_switches'])
    return counts


def test_messages_do_not_wake_the_progress_thread(runner):
    argv = ['ib_send_lat', '-d', DEVICE, '-F', '-e', '-s', 8, '-n', 10000]
    # Where programs wait for a processor, messages come to a thread that is awake: the best of three.
    shares = []
    while not shares or (min(shares) > 0.5 and len(shares) < 3):
        port = free_port()
        server = runner.start_server([*argv, '-p', port], port)
        client = runner.start(*argv, '-p', port, HOST)
        seen = {}
        while client.status is None and client.wait(0.1) is None:
            try:
                now = sleeps(client.pid)
            except OSError:
                break
            if 'verbatim-prog' in now:  # the program has not begun to end
                seen = now
        client.finish()
        server.finish()
        print(seen)
        assert seen['ib_send_lat'] > 1000, seen
        shares.append(seen['verbatim-prog'] / seen['ib_send_lat'])
    assert min(shares) < 0.5, shares
