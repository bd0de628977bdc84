# SPDX-License-Identifier: BSD-2-Clause
"""The rows of scripts/test-programs: each is one real use of a program of Debian, with what it moves compared.

A row's function gets the two hosts that its ends are to run on. `ends` adds it twice: with both ends on one
host, and between two. What it raises is the failure; it is called with a limit of seconds.
"""
import collections

Row = collections.namedtuple('Row', 'program package text where seconds known mtu function')
# A failure that is the program's own, of the versions of its package from `since` on and before `until`, if they are given.
# The symptom is a regular expression. `always`: it has to come; else it may.
Known = collections.namedtuple('Known', 'symptom why since until always', defaults=(None, None, True))
ONE, TWO = 'one host', 'two hosts'
rows = []


def row(program, text, package=None, where=(ONE, TWO), seconds=60, known=None, mtu=9000):
    """Adds the function. `known` says of a place (ONE, TWO) why it is known to fail there (Known, or several of them):
    what it then says has the symptom. `mtu`: of the cable between the hosts.
    """
    def add(function):
        for place in where:
            rows.append(Row(program, package or program, text, place, seconds, (known or {}).get(place), mtu,
                            function))
        return function
    return add


def check(condition, *output):
    """An error that shows the output, unless the condition holds."""
    if not condition:
        raise AssertionError('\n'.join(map(str, output)))
