# SPDX-License-Identifier: BSD-2-Clause
"""Programs on a kernel whose pages seem to be 16 or 64 KiB long, as some of arm64 are: pages/pages.c."""
import os

import pytest

from harness import BUILD, HOST, VERIFY
from test_migrate import can_hold_writers, until_back
from test_rsockets import pair

PAGES = BUILD / 'tests/integration/pages/libpages.so'


@pytest.fixture(params=[16384, 65536])
def big_pages(request):
    """The environment of programs that see such pages."""
    others = os.environ.get('LD_PRELOAD', '')
    return {'LD_PRELOAD': f'{others}:{PAGES}' if others else str(PAGES), 'TEST_PAGE_BYTES': request.param}


def run_pair(runner, port, argv, env, **options):
    outputs = runner.pair(argv, [*argv, HOST], port, env=env, **options)
    for output in outputs:
        assert 'refused' not in output, output
    return outputs


def test_what_a_page_is(runner, big_pages):
    """The library is there: the programs of this file see such pages."""
    assert runner.run('getconf', 'PAGESIZE', env=big_pages).strip() == str(big_pages['TEST_PAGE_BYTES'])


def test_pingpong(runner, port, big_pages):
    argv = ['ibv_rc_pingpong', '-d', 'vrb_lo', '-g', '0', '-n', 100, '-c', '-s', 100000, '-p', port]
    for output in run_pair(runner, port, argv, big_pages):
        assert '100 iters in' in output and 'invalid data' not in output, output


def test_device_memory(runner, port, big_pages):
    argv = ['ibv_rc_pingpong', '-d', 'vrb_lo', '-g', '0', '-n', 100, '-j', '-p', port]
    run_pair(runner, port, argv, big_pages)


@pytest.mark.parametrize('wish', [None, 'held'])
def test_pages_migrate(runner, port, big_pages, wish):
    """And nothing is lost, as in test_migrate.py: whole pages of such a length alone move."""
    moves = wish is None and can_hold_writers()
    argv = [VERIFY, 'migrate', '--port', port, '--count', 5000, *until_back(moves)]
    target, _ = run_pair(runner, port, argv, {**big_pages, 'VERBATIM_MIGRATE': wish}, seconds=60)
    assert f'{"migrated" if moves else "not migrated"}, nothing lost' in target.splitlines(), target


def test_rsockets(runner, port, big_pages):
    """Their buffers are whole pages."""
    argv = ['env', *(f'{name}={value}' for name, value in big_pages.items()), 'rstream', '-p', port, '-S', 'all', '-C', 20]
    for output in pair(runner, argv, [*argv, '-s', HOST], seconds=60):
        assert 'refused' not in output, output
