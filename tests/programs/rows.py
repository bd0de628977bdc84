# SPDX-License-Identifier: BSD-2-Clause
"""The rows of scripts/test-programs: each is one real use of a program of Debian, with what it moves compared.

A row's function gets the two hosts that its ends are to run on. `ends` adds it twice: with both ends on one
host, and between two. What it raises is the failure; it is called with a limit of seconds.
"""
import collections

Row = collections.namedtuple('Row', 'program package text where seconds known function')
Known = collections.namedtuple('Known', 'symptom why')
ONE, TWO = 'one host', 'two hosts'
rows = []


def row(program, text, package=None, where=(ONE, TWO), seconds=60, known=None):
    """Adds the function. `known` says of a place (ONE, TWO) why it is known to fail there (Known): it has to, and what
    it then says has the symptom.
    """
    def add(function):
        for place in where:
            rows.append(Row(program, package or program, text, place, seconds, (known or {}).get(place), function))
        return function
    return add


def check(condition, *output):
    """An error that shows the output, unless the condition holds."""
    if not condition:
        raise AssertionError('\n'.join(map(str, output)))
