"""Counts the system calls that a message costs. Used by the tests and by the demo."""
import pathlib
import re

from harness import HOST, free_port

FEW, MANY = 1000, 21000


def _total(path):
    """The number of calls in the last line of what `strace -c` wrote."""
    text = pathlib.Path(path).read_text()
    found = re.search(r'^100\.00\s+\S+\s+(\d+)\s+(?:\d+\s+)?total$', text, re.MULTILINE)
    if not found:
        raise AssertionError(f'not the output of strace -c:\n{text}')
    return int(found[1])


def count(runner, argv, end, directory):
    """System calls of all threads of one end ('server' or 'client') of perftest's `argv`."""
    port = free_port()
    path = pathlib.Path(directory, 'strace')
    # Who polled in vain for long offers its processor: that is waiting, and not on a message's way.
    trace = ['strace', '-f', '-c', '-e', 'trace=!sched_yield', '-U', 'time,total-time,calls,errors,name', '-o', path]
    argv = [*argv, '-p', port]
    server = [*trace, *argv] if end == 'server' else argv
    client = [*trace, *argv, HOST] if end == 'client' else [*argv, HOST]
    runner.pair(server, client, port, seconds=60)
    return _total(path)


def per_message(runner, argv, end, directory):
    """What a message more costs: starting and ending a program cost the same in both runs."""
    few = count(runner, [*argv, '-n', FEW], end, directory)
    many = count(runner, [*argv, '-n', MANY], end, directory)
    return max(0, many - few) / (MANY - FEW)
