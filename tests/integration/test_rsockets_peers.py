# SPDX-License-Identifier: BSD-2-Clause
"""Rsockets whose peer is killed, stopped or turned away; and over IPv6."""
import signal
import time

import pytest

from harness import HOST, SLOWER
from test_rsockets import (DATAGRAMS, MODES, REDIS_SERVER, UNDER_MORE, cable, fresh,  # noqa: F401, pylint: disable=unused-import
                           pong, row, start_server)
from test_rsockets import pair as both_ends

SOON_S = 2  # what a program that serves others may be held up
DENIED = 'DENIED Redis is running in protected mode'

HOSTS = pytest.mark.parametrize('where', ['one', pytest.param('two', marks=pytest.mark.network)])


@pytest.fixture
def pair(where, request):
    """(host of the server, its address, host of the client)"""
    if where == 'one':
        runner = request.getfixturevalue('fresh')
        return runner, HOST, runner
    hosts = request.getfixturevalue('cable')
    return hosts.b, hosts.b.address, hosts.a


# IPv6


def stream_to(runner, port, address, *options, peer=None):
    """The server has to be told the address: without it rstream listens for IPv4."""
    argv = ['rstream', '-p', port, '-S', 65536, '-C', 50, '-I', 5, *options]
    _, output = both_ends(runner, [*argv, '-b', address], [*argv, '-s', address], peer=peer)
    assert row(output)[1] == '64k', output


@pytest.mark.parametrize('mode', ['default', 'async', 'verify'])
def test_ipv6(fresh, port, mode):  # noqa: F811
    stream_to(fresh, port, '::1', *MODES[mode])


@pytest.mark.alone  # as in test_rsockets
@pytest.mark.parametrize('mode', DATAGRAMS)
def test_ipv6_datagrams(fresh, port, mode):  # noqa: F811
    pong(fresh, port, *DATAGRAMS[mode], '-S', 1000, '-C', 200, address='::1')


@pytest.mark.network
def test_ipv6_between_hosts(cable, port):  # noqa: F811
    stream_to(cable.b, port, cable.b.addresses[1], '-T', 'v', peer=cable.a)


@pytest.mark.alone
@pytest.mark.network
def test_ipv6_datagrams_between_hosts(cable, port):  # noqa: F811
    address = cable.b.addresses[1]
    pong(cable.b, port, '-T', 'e', '-S', 1000, '-C', 200, address=address, peer=cable.a)


# A peer that is killed


@HOSTS
@pytest.mark.parametrize('mode', ['blocking', 'nonblocking', 'async'])
def test_killed(pair, port, mode):
    """In the middle of a stream: who sends does not wait. (rstream reads on at the end of a stream.)"""
    host, address, peer = pair
    argv = ['rstream', '-p', port, *MODES[mode], '-S', 65536, '-C', 1000000, '-I', 1000]
    server = start_server(host, argv)
    client = peer.start(*argv, '-s', address)
    time.sleep(0.5 * SLOWER)
    assert server.status is None and client.status is None
    server.signal(signal.SIGKILL)
    assert client.wait(SOON_S * SLOWER) is not None, client.report()


# Redis serves all its clients with one thread


def start_redis(host, port, tmp_path, address, protected):
    program = tmp_path / 'redis-server'
    program.symlink_to(REDIS_SERVER)
    server = host.start(*UNDER_MORE, program, '--port', port, '--save', '', '--bind', address,
                        '--protected-mode', protected)
    server.wait_for('Ready to accept connections')
    return server


def ask(host, port, address, *words):
    """What redis-cli says, and how long that took."""
    since = time.monotonic()
    client = host.start(*UNDER_MORE, 'redis-cli', '-h', address, '-p', port, *words)
    client.wait(30)
    output = client.output()
    assert client.status is not None, client.report()
    host.release(client)
    return output, time.monotonic() - since


@pytest.mark.alone
@pytest.mark.network
def test_turned_away(cable, port, tmp_path):  # noqa: F811
    """It tells the client why, once it has accepted it, and closes at once, without waiting.

    redis-cli hears it only if it can still send its own request, which is a matter of chance.
    """
    start_redis(cable.b, port, tmp_path, cable.b.address, 'yes')
    said = []
    while len(said) < 8 or not any(DENIED in output for output in said):
        output, took = ask(cable.a, port, cable.b.address, 'ping')
        said.append(output)
        assert took < SOON_S * SLOWER, (output, took)
        assert DENIED in output or 'reset by peer' in output, output
        assert len(said) < 100, said


@pytest.mark.alone
@HOSTS
def test_stopped(pair, port, tmp_path):
    """One client does not answer any more, and is disconnected: the others do not wait for that."""
    host, address, peer = pair
    start_redis(host, port, tmp_path, address, 'no')
    silent = peer.start(*UNDER_MORE, 'redis-cli', '-h', address, '-p', port, 'subscribe', 'news')
    silent.wait_for('subscribe')
    silent.signal(signal.SIGSTOP)
    for _ in range(3):  # what it is sent is not acknowledged
        assert ask(host, port, address, 'publish', 'news', 'x' * 1000)[0].strip() == '1'
    output, took = ask(host, port, address, 'client', 'kill', 'type', 'pubsub')
    assert output.strip() == '1' and took < SOON_S * SLOWER, (output, took)
    output, took = ask(host, port, address, 'ping')
    assert output.strip() == 'PONG' and took < SOON_S * SLOWER, (output, took)
    silent.signal(signal.SIGCONT)
    silent.wait_for('x' * 1000)
