# SPDX-License-Identifier: BSD-2-Clause
"""Counts the system calls that a message costs. Used by the tests and by the demo."""
import pathlib
import re

from harness import HOST, free_port

FEW, MANY = 1000, 21000


def _totals(path):
    """From what `strace -c` wrote: (all calls but sched_yield, calls of sched_yield)."""
    text = pathlib.Path(path).read_text()
    calls = {name: int(count) for count, name in
             re.findall(r'^ *[\d.]+\s+[\d.]+\s+(\d+)\s+(?:\d+\s+)?(\w+)$', text, re.MULTILINE)}
    if 'total' not in calls:
        raise AssertionError(f'not the output of strace -c:\n{text}')
    yields = calls.get('sched_yield', 0)
    return calls['total'] - yields, yields


def count(runner, argv, end, directory, calls='!sched_yield', cable=None):
    """System calls of all threads of one end ('server' or 'client') of perftest's `argv`, and how
    often it gave up the processor because there was nothing to do. `calls`: which are counted.
    `cable`: between its two hosts, instead of two processes of the runner's."""
    port = free_port()
    path = pathlib.Path(directory, 'strace')
    # Who polled in vain for long offers its processor: that is waiting, and not on a message's way.
    trace = ['strace', '-f', '-c', '-e', f'trace={calls}', '-U', 'time,total-time,calls,errors,name', '-o', path]
    argv = [*argv, '-p', port]
    server = [*trace, *argv] if end == 'server' else argv
    to = cable.b.address if cable else HOST
    client = [*trace, *argv, to] if end == 'client' else [*argv, to]
    if cable:
        cable.b.pair(server, client, port, seconds=60, peer=cable.a)
    else:
        runner.pair(server, client, port, seconds=60)
    return _totals(path)


def per_message(runner, argv, end, directory, calls='!sched_yield', cable=None, most=MANY):
    """(system calls, yields) that a message more costs: to start and to end a program costs the
    same in both runs. `most`: messages of the longer one."""
    few = count(runner, [*argv, '-n', FEW], end, directory, calls, cable)
    many = count(runner, [*argv, '-n', most], end, directory, calls, cable)
    return tuple(max(0, more - less) / (most - FEW) for less, more in zip(few, many))
