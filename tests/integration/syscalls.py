# SPDX-License-Identifier: BSD-2-Clause
"""Counts the system calls, and the calls that send packets, that a message costs. Used by the tests and by the demo."""
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


# Who polled in vain for long offers its processor: that is waiting, and not on a message's way.
BUT_WAITING = '!sched_yield'
# Nor is what is done once in some hundred microseconds, as long as the program polls: the poll lease is renewed.
BUT_BY_THE_CLOCK = '!sched_yield,timerfd_settime'


def count(runner, argv, end, directory, calls=BUT_WAITING, threads=True):
    """System calls of one end ('server' or 'client') of perftest's `argv`, and how often it gave up the processor
    because there was nothing to do. `calls`: which are counted. `threads`: of all; else of the one that posts and polls.
    """
    port = free_port()
    path = pathlib.Path(directory, 'strace')
    trace = ['strace', *(['-f'] if threads else []), '-c', '-e', f'trace={calls}', '-U', 'time,total-time,calls,errors,name', '-o', path]
    argv = [*argv, '-p', port]
    server = [*trace, *argv] if end == 'server' else argv
    client = [*trace, *argv, HOST] if end == 'client' else [*argv, HOST]
    runner.pair(server, client, port, seconds=60)
    return _totals(path)


def per_message(runner, argv, end, directory, calls=BUT_WAITING, threads=True):
    """(system calls, yields) that a message more costs: to start and to end a program costs the
    same in both runs."""
    few = count(runner, [*argv, '-n', FEW], end, directory, calls, threads)
    many = count(runner, [*argv, '-n', MANY], end, directory, calls, threads)
    return tuple(max(0, more - less) / (MANY - FEW) for less, more in zip(few, many))


def sent(host):
    """How many UDP datagrams the host's kernel was given to send: each GSO batch is one."""
    counts = pathlib.Path(f'/proc/{host.anchor}/net/snmp').read_text()
    names, values = (line.split() for line in counts.splitlines() if line.startswith('Udp:'))
    return int(dict(zip(names, values))['OutDatagrams'])


def sends_per_message(cable, argv, end, most=MANY):
    """GSO batches and single packets that a message of perftest's `argv` more costs one end ('server' or
    'client'). The kernel counts them: strace would make each take longer than a round trip."""
    host = cable.a if end == 'client' else cable.b
    counts = []
    for messages in FEW, most:
        port, before = free_port(), sent(host)
        both = [*argv, '-p', port, '-n', messages]
        cable.b.pair(both, [*both, cable.b.address], port, seconds=60, peer=cable.a)
        counts.append(sent(host) - before)
    return max(0, counts[1] - counts[0]) / (most - FEW)
