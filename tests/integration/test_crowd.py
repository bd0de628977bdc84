# SPDX-License-Identifier: BSD-2-Clause
"""A process with many peers: no answer is slept over, whichever of them it comes from, and however long
that one was silent. tests/bench/crowd, which asks random peers after random pauses.
"""
import json

import pytest

from harness import BUILD, DEVICE

CROWD = BUILD / 'tests/bench/crowd'


@pytest.mark.parametrize('seed, peers', [(1, 2), (2, 8), (3, 40)])
def test_answers(runner, seed, peers):
    assert '2000 answers' in runner.run(CROWD, '--check', seed, DEVICE, peers, seconds=60)


def test_everybody_exchanges(runner):
    values = json.loads(runner.run(CROWD, '--all', DEVICE, 11, seconds=60))
    assert values['all'] and values['peers'] == 11


def test_daemon_with_few_descriptors(runner):
    """More pairs talk than verbatimd, a daemon of its own with the same limit, can keep descriptors for."""
    values = json.loads(runner.run(CROWD, '--all', DEVICE, 12, seconds=60, before=('prlimit', '--nofile=110:110'),
                                   env={'VERBATIM_NAMESPACE': f'{runner.namespace}-few'}))
    assert values['all'] and values['peers'] == 12
