# SPDX-License-Identifier: BSD-2-Clause
"""Rsockets: rdmacm-utils' programs, and programs that know nothing of RDMA under librspreload; untouched, on
one host and between two.
"""
import filecmp
import os
import pathlib
import re
import subprocess
import time

import pytest

from harness import BUILD, HOST, SLOWER, finish_both, is_listening, wait_until
from test_cm import LIBRDMACM_FILE

MI = 1 << 20
LIBDIR = subprocess.run(['pkg-config', '--variable=libdir', 'librdmacm'], check=True,
                        capture_output=True, text=True).stdout.strip()
RSPRELOAD = f'{LIBDIR}/rsocket/librspreload.so'
RSMORE = str(BUILD / 'src/preload/libverbatim-rsmore.so')
UNDER = ['env', f'LD_PRELOAD={RSPRELOAD}']
UNDER_MORE = ['env', f'LD_PRELOAD={RSPRELOAD} {RSMORE}']
# Debian's redis-tools has the server, which goes by the name that it is called by.
REDIS_SERVER = '/usr/bin/redis-check-rdb'


@pytest.fixture
def fresh(fresh_runner):
    """A daemon of its own: its port space is empty."""
    return fresh_runner()


@pytest.fixture
def cable(cables):
    return cables(9000)


def has_library(pid):
    try:
        return LIBRDMACM_FILE in pathlib.Path(f'/proc/{pid}/maps').read_text(encoding='utf-8')
    except (FileNotFoundError, ProcessLookupError):
        return False


def start_server(runner, argv):
    """Returns when it listens, for rdma_cm or by a plain socket; datagrams do not: a moment is enough."""
    server = runner.start(*argv)
    tcp = '-T' in argv and 's' in argv
    listens = argv[0] != 'udpong' and not tcp

    def ready():
        if server.status is not None:
            raise AssertionError(f'the server ended before it listened\n{server.report()}')
        if tcp:
            return is_listening(int(argv[argv.index('-p') + 1]), runner.anchor)
        return has_library(server.pid) and (not listens or runner.listens(server))
    wait_until(ready, 10 * SLOWER, f'{argv} runs')
    if not listens and not tcp:
        time.sleep(0.3 * SLOWER)
    return server


def pair(runner, server_argv, client_argv, peer=None, seconds=30):
    """Both to their ends; (server's output, client's output)."""
    server = start_server(runner, server_argv)
    client = (peer or runner).start(*client_argv)
    try:
        finish_both((server, client), seconds)
        return server.output(), client.output()
    finally:
        (peer or runner).release(client)
        runner.release(server)


def row(output):
    """The columns behind the name in the last line of a table: bytes, transfers, ..."""
    rows = [line.split() for line in output.splitlines() if re.match(r'^\w+ +\d+k?m? ', line)]
    assert rows, f'no results\n{output}'
    return rows[-1]


def stream(runner, port, *options, program='rstream', address=HOST, **more):
    """Returns the client's last row."""
    argv = [program, '-p', port, *options]
    _, output = pair(runner, argv, [*argv, '-s', address], **more)
    return row(output)


MODES = {
    'default': [],
    'blocking': ['-T', 'b'],
    'nonblocking': ['-T', 'n'],
    'async': ['-T', 'a'],
    'async-nonblocking': ['-T', 'a', '-T', 'n'],
    'resolve': ['-T', 'r'],
    'verify': ['-T', 'v'],
    'keepalive': ['-k', '1'],
    'inline-0': ['-i', '0'],
    'inline-512': ['-i', '512'],
    'small-buffers': ['-B', '4096'],
    'large-buffers': ['-B', str(MI)],
    'sockets': ['-T', 's'],
}


# rstream allocates `size` bytes, and begins by sending 16 of them whatever that is
@pytest.mark.parametrize('size', [1, *(pytest.param(size, marks=pytest.mark.asan)
                                       for size in (64, 65, 4096, 65536, 1000003))])
@pytest.mark.parametrize('mode', ['default', 'verify'])
def test_stream_sizes(fresh, port, mode, size):
    stream(fresh, port, *MODES[mode], '-S', size, '-C', 50, '-I', 5)


@pytest.mark.parametrize('mode', MODES)
def test_stream_modes(fresh, port, mode):
    stream(fresh, port, *MODES[mode], '-S', 20000, '-C', 100, '-I', 5)


@pytest.mark.long
def test_stream_all(fresh, port):
    assert stream(fresh, port, '-S', 'all', seconds=60)[0] == '6m_bw'


@pytest.mark.parametrize('mode', ['default', 'async', 'small-buffers'])
def test_direct(fresh, port, mode):
    """riostream: into mapped buffers."""
    stream(fresh, port, *MODES[mode], '-S', 20000, '-C', 100, '-I', 5, program='riostream')


def test_direct_verified(fresh, port):
    stream(fresh, port, '-T', 'v', '-S', 65536, '-C', 50, program='riostream')


def copy(runner, port, tmp_path, address=HOST, peer=None):
    source, target = tmp_path / 'source', tmp_path / 'target'
    source.write_bytes(os.urandom(100 * MI))
    server = start_server(runner, ['rcopy', '-p', port])
    client = (peer or runner).start('rcopy', source, f'{address}:{target}', '-p', port)
    assert f'{100 * MI} bytes in' in client.finish(60)
    wait_until(lambda: 'done' in server.output(), 10, 'the server is done')
    assert filecmp.cmp(source, target, shallow=False)


def test_copy(fresh, port, tmp_path):
    copy(fresh, port, tmp_path)


# With -T e, udpong may not come to its end any more once an echo took longer than 1 ms. So not many, with nothing beside.
DATAGRAMS = {
    'echo': ['-T', 'e'],
    'echo-async': ['-T', 'e', '-T', 'a'],
    'echo-nonblocking': ['-T', 'e', '-T', 'n'],
}


def pong(runner, port, *options, address=HOST, peer=None):
    """The server never ends by itself."""
    start_server(runner, ['udpong', '-p', port, '-b', address])
    client = (peer or runner).start('udpong', '-p', port, '-s', address, *options)
    return row(client.finish(30))


@pytest.mark.alone
@pytest.mark.parametrize('size', [64, pytest.param(1024, marks=[pytest.mark.asan, pytest.mark.first])])
@pytest.mark.parametrize('mode', DATAGRAMS)
def test_datagrams(fresh, port, mode, size):
    pong(fresh, port, *DATAGRAMS[mode], '-S', size, '-C', 200)


def test_datagrams_one_way(fresh, port):
    pong(fresh, port, '-S', 64, '-C', 100)


# Programs that know nothing of it


def iperf3(runner, port, *options, address=HOST, peer=None):
    """Gbit/s at the receiver."""
    peer = peer or runner
    server = start_server(runner, [*UNDER, 'iperf3', '-s', '-1', '-p', port, '-B', address])
    assert not is_listening(port, runner.anchor)  # not with TCP
    client = peer.start(*UNDER, 'iperf3', '-c', address, '-p', port, '-t', 1, '-f', 'g', *options)
    output = client.finish(20)
    server.finish(10)
    found = re.findall(r'([\d.]+) Gbits/sec +receiver', output)
    assert found, output
    return float(found[-1])


@pytest.mark.parametrize('options', [[], ['-R'], ['-P', '4'], ['-l', '1K']],
                         ids=['plain', 'reverse', 'parallel', 'small'])
def test_iperf3(fresh, port, options):
    assert iperf3(fresh, port, *options) > 0


def start_redis(runner, port, tmp_path, address=HOST):
    program = tmp_path / 'redis-server'
    program.symlink_to(REDIS_SERVER)
    server = runner.start(*UNDER_MORE, program, '--port', port, '--save', '', '--bind', address,
                          '--protected-mode', 'no')
    server.wait_for('Ready to accept connections')
    assert has_library(server.pid) and not is_listening(port, runner.anchor)
    return server


def redis(runner, port, tmp_path, address=HOST, peer=None):
    peer = peer or runner
    start_redis(runner, port, tmp_path, address)
    client = peer.start(*UNDER_MORE, 'redis-benchmark', '-h', address, '-p', port, '-t',
                        'set,get,lrange_100', '-n', 2000, '-c', 8, '-q')
    output = client.finish(30).replace('\r', '\n')
    for name in ('SET', 'GET', 'LRANGE_100'):
        assert re.search(rf'^{name}.*: [\d.]+ requests per second', output, re.MULTILINE), output


def test_redis(fresh, port, tmp_path):
    redis(fresh, port, tmp_path)


@pytest.mark.parametrize('case', ['sleeper_sees_addition', 'sleeper_without_descriptors',
                                  'addition_is_no_cancellation_point', 'sleeper_sees_change',
                                  'closed_leaves_set', 'closed_set_is_empty', 'closed_in_vfork_stays', 'accepted_closes_on_exec',
                                  'added_twice', 'files_are_refused', 'disabled_sleeps', 'all_have_their_turn'])
def test_epoll(fresh, port, case):
    program = pathlib.Path(__file__).with_name('epoll_sets.py')
    assert fresh.start(*UNDER_MORE, '/usr/bin/python3', program, case, HOST, port).finish(20) == 'done\n'


def test_fork(fresh, port):
    """A server that forks for each connection: librspreload connects in the child."""
    # librspreload's, system-wide: a server that was killed within its fork has left it at 0, for ever
    pathlib.Path('/dev/shm/sem.rsocket_fork').unlink(missing_ok=True)
    argv = ['env', 'RDMAV_FORK_SAFE=1', f'LD_PRELOAD={RSPRELOAD}', 'rstream', '-T', 'f', '-p', port,
            '-S', 4096, '-C', 100, '-I', 2]
    fresh.start_server(argv, port)  # it listens with TCP, and forks
    assert row(fresh.start(*argv, '-s', HOST).finish(20))[0] == 'custom'


# Between two hosts


@pytest.mark.network
@pytest.mark.parametrize('mode', ['default', 'async', 'verify'])
def test_stream_between_hosts(cable, port, mode):
    stream(cable.b, port, *MODES[mode], '-S', 65536, '-C', 50, '-I', 5, address=cable.b.address,
           peer=cable.a)


@pytest.mark.network
def test_direct_between_hosts(cable, port):
    stream(cable.b, port, '-T', 'v', '-S', 65536, '-C', 50, program='riostream',
           address=cable.b.address, peer=cable.a)


@pytest.mark.network
def test_copy_between_hosts(cable, port, tmp_path):
    copy(cable.b, port, tmp_path, cable.b.address, cable.a)


@pytest.mark.alone
@pytest.mark.network
@pytest.mark.parametrize('mode', DATAGRAMS)
def test_datagrams_between_hosts(cable, port, mode):
    pong(cable.b, port, *DATAGRAMS[mode], '-S', 1024, '-C', 200, address=cable.b.address,
         peer=cable.a)


@pytest.mark.network
def test_iperf3_between_hosts(cable, port):
    assert iperf3(cable.b, port, address=cable.b.address, peer=cable.a) > 0


@pytest.mark.network
def test_redis_between_hosts(cable, port, tmp_path):
    redis(cable.b, port, tmp_path, cable.b.address, cable.a)


@pytest.mark.long  # a busy machine tells nothing
def test_faster_than_tcp(fresh, port):
    """A stream of 64 KiB messages on one host, in Gbit/s, against TCP on loopback: medians of three."""
    def measure(*options):
        argv = [*options, '-S', 65536, '-C', 5000, '-I', 1]
        return sorted(float(stream(fresh, port, *argv)[-2]) for _ in range(3))[1]
    tcp, rsockets = measure('-T', 's'), measure()
    line = f'rstream 64 KiB: rsockets {rsockets} Gbit/s, TCP {tcp} Gbit/s'
    print(line)
    assert rsockets > tcp / SLOWER, line
