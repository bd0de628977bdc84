# SPDX-License-Identifier: BSD-2-Clause
"""Every byte of every operation, between two processes: verify/data.c and verify/passive.c."""
import re

import pytest

from harness import HOST, VERIFY

KI = 1 << 10
MI = 1 << 20
MANY = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1023, 1024, 4095, 4096, 4097, 10000]
LARGE = [64 * KI - 1, 64 * KI, 64 * KI + 1, 256 * KI + 3, MI - 1, MI, 3 * MI + 5, 8 * MI]

OPERATIONS = [
    *(('rc', op) for op in ('send', 'send_imm', 'write', 'write_imm', 'read', 'cas', 'faa')),
    *(('uc', op) for op in ('send', 'send_imm', 'write', 'write_imm')),
    *(('ud', op) for op in ('send', 'send_imm')),
]


def verify(runner, port, service, op, sizes, *options, count=64, seconds=30):
    if op in ('cas', 'faa', 'atomic_write'):
        sizes = [8]
    if service == 'ud':
        sizes = [size for size in sizes if size <= 4096]
    argv = [VERIFY, 'data', '--port', port, '--service', service, '--op', op,
            '--sizes', ','.join(map(str, sizes)), '--count', count, *options]
    for output in runner.pair(argv, [*argv, HOST], port, seconds=seconds):
        assert f'verified {len(sizes) * count} messages' in output, output


@pytest.mark.asan
@pytest.mark.parametrize('service, op', OPERATIONS)
def test_sizes(runner, port, service, op):
    verify(runner, port, service, op, MANY)


@pytest.mark.parametrize('service, op', [
    pytest.param(service, op, marks=pytest.mark.long if op.endswith('_imm') or (service, op) == ('uc', 'write') else [])
    for service, op in OPERATIONS if service != 'ud' and op not in ('cas', 'faa')])
def test_large_messages(runner, port, service, op):
    verify(runner, port, service, op, LARGE, '--depth', 8, count=16, seconds=60)


@pytest.mark.parametrize('service, op', OPERATIONS)
def test_wr_api(runner, port, service, op):
    verify(runner, port, service, op, [*MANY, 64 * KI + 1], '--wr-api')


@pytest.mark.asan
@pytest.mark.parametrize('op, options', [
    ('atomic_write', []), ('atomic_write', ['--wr-api']), ('write_flush', ['--wr-api'])],
    ids=['atomic_write', 'atomic_write-wr_api', 'write_flush'])
def test_placement(runner, port, op, options):
    verify(runner, port, 'rc', op, [*MANY, 64 * KI + 1], *options)


@pytest.mark.parametrize('service, op', OPERATIONS)
def test_events(runner, port, service, op):
    verify(runner, port, service, op, [1, 100, 4096, 64 * KI + 1], '--events')


@pytest.mark.asan
@pytest.mark.parametrize('pieces', [2, 8])
@pytest.mark.parametrize('service, op', [
    (service, op) for service, op in OPERATIONS if op not in ('cas', 'faa')])
def test_scatter_gather(runner, port, service, op, pieces):
    verify(runner, port, service, op, [*MANY, 64 * KI + 1], '--pieces', pieces)


@pytest.mark.parametrize('options', [[], ['--wr-api']], ids=['post_send', 'wr_api'])
@pytest.mark.parametrize('service, op', [
    (service, op) for service, op in OPERATIONS if op.startswith(('send', 'write'))])
def test_inline(runner, port, service, op, options):
    """The source is overwritten right after the post."""
    verify(runner, port, service, op, [0, 1, 7, 32, 63, 64], '--inline', '--pieces', 3, *options)


@pytest.mark.parametrize('service, op', OPERATIONS)
def test_deep_queues(runner, port, service, op):
    # datagrams that find the ring full for 50 ms are dropped: so many fit
    verify(runner, port, service, op, [16, 1000, 4096], '--depth', 64 if service == 'ud' else 256, count=2048)


@pytest.mark.parametrize('service, op', [('rc', 'send'), ('rc', 'write_imm'), ('uc', 'send')])
def test_depth_one(runner, port, service, op):
    verify(runner, port, service, op, [16, 5000, 64 * KI + 1], '--depth', 1)


@pytest.mark.asan
def test_passive_target(runner, port):
    """The target sleeps in pause() and is still written, read and counted up."""
    argv = [VERIFY, 'passive', '--port', port, '--count', 200,
            '--sizes', f'1,8,100,4096,65537,{MI},{8 * MI}']
    target = runner.start_server(argv, port)
    initiator = runner.start(*argv, HOST)
    output = initiator.finish(seconds=60)
    assert 'served 200 rounds' in output, output
    assert target.status is None, target.report()
    assert re.findall(r'^passive$', target.output(), re.MULTILINE), target.report()
