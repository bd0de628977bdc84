# SPDX-License-Identifier: BSD-2-Clause
"""Rsockets with rdma-core's own over Linux's soft-RoCE as the other end: each side as server and as
client, what crosses the tap checked like everything else.
"""
import hashlib
import os
import shutil

import pytest

from harness import BUILD, SLOWER, finish_both, wait_until
from netns import Capture
from test_cm import read_mads
from test_rsockets import MODES, row, start_server
from test_rxe import SERVERS, VERBATIM, check, guest, running, words  # noqa: F401, pylint: disable=unused-import

pytestmark = pytest.mark.interop

MI = 1 << 20
GRH = BUILD / 'tests/integration/grh/libgrh.so'


def start_theirs(guest, argv, seconds=60):  # noqa: F811
    # A program that hangs must not stay in the guest, where no process ends with the test.
    return guest.start(f'exec timeout -s KILL {seconds} {words(*argv)}')


def serve_theirs(guest, argv, port, seconds=60):  # noqa: F811
    """A server in the guest, which the kernel there knows to listen, or to have a UDP port."""
    server = start_theirs(guest, argv, seconds)
    name = os.path.basename(argv[0])
    try:
        guest.run(f'for i in $(seq 400); do rdma resource show cm_id | grep LISTEN | grep -q ":{port} " '
                  f'&& exit 0; grep -q ":{port:04X} " /proc/net/udp && exit 0; sleep 0.05; done; exit 1')
    except AssertionError as error:
        raise AssertionError(f'{name} does not listen\n{server.report()}\n{error}') from None
    return server


def run_pair(guest, server, server_argv, client_argv, port, seconds=40, ends=True):  # noqa: F811
    """The client to its end, and the server, if it `ends`: (server's output, client's output)."""
    if server == VERBATIM:
        first = start_server(guest.host, server_argv)
        last = start_theirs(guest, [*client_argv, guest.host.address], seconds + 20)
    else:
        first = serve_theirs(guest, server_argv, port, seconds + 20)
        last = guest.host.start(*client_argv, guest.address)
    try:
        if ends:
            finish_both((first, last), seconds)
        else:
            last.finish(seconds)
        return first.output(), last.output()
    finally:
        for end in (first, last):
            (guest if end in guest.programs else guest.host).release(end)


def stream(guest, server, port, *options, program='rstream', **more):  # noqa: F811
    argv = [program, '-p', port, *options]
    return row(run_pair(guest, server, argv, [*argv, '-s'], port, **more)[1])


def pong(guest, server, port, *options, **more):  # noqa: F811
    """rdma-core's datagram rsockets do not work on Ethernet; with libgrh.so (grh/grh.c) they do.

    One way: with -T e, udpong never comes to its end again once an echo took longer than 1 ms.
    """
    shutil.copy(GRH, guest.share)
    here, there = ['udpong', '-p', port], ['env', 'LD_PRELOAD=/share/libgrh.so', 'udpong', '-p', port]
    if server == VERBATIM:
        server_argv, client_argv, address = here, there, guest.host.address
    else:
        server_argv, client_argv, address = there, here, guest.address
    _, output = run_pair(guest, server, [*server_argv, '-b', address],
                         [*client_argv, *options, '-s'], port, ends=False, **more)
    assert row(output)[2] != '0', output
    return row(output)


def copy(guest, server, port, tmp_path, size):  # noqa: F811
    """rcopy of so many bytes; both files are compared where they are."""
    data = os.urandom(size)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    ours, theirs = tmp_path / 'file', '/tmp/file'
    if server == VERBATIM:
        (guest.share / 'file').write_bytes(data)
        first = start_server(guest.host, ['rcopy', '-p', port])
        output = guest.run(words('rcopy', '/share/file', f'{guest.host.address}:{ours}', '-p', port), 60)
        wait_until(lambda: 'done' in first.output(), 10 * SLOWER, 'the server is done')
        guest.host.release(first)
        found = hashlib.md5(ours.read_bytes(), usedforsecurity=False).hexdigest()
    else:
        ours.write_bytes(data)
        first = serve_theirs(guest, ['rcopy', '-p', port], port)
        output = guest.host.run('rcopy', ours, f'{guest.address}:{theirs}', '-p', port, seconds=60)
        wait_until(lambda: 'done' in first.output(), 10 * SLOWER, 'the server is done')
        guest.release(first)
        found = guest.run(f'md5sum {theirs}; rm {theirs}').split()[0]
    assert f'{size} bytes in' in output
    assert found == digest


SHORT = [
    ('rstream', ['-S', 65536, '-C', 20, '-I', 1]),
    ('rstream', ['-T', 'v', '-S', 20001, '-C', 20, '-I', 1]),
    ('rstream', ['-T', 'n', '-S', 64, '-C', 200, '-I', 1]),
    ('riostream', ['-T', 'v', '-S', 65536, '-C', 20, '-I', 1]),
]


@SERVERS
def test_streams(guest, server, port):  # noqa: F811
    with Capture(guest.host) as capture:
        for program, options in SHORT:
            stream(guest, server, port, *options, program=program)
            port += 1
    check(guest, capture, ends=False)
    assert {'REQ', 'REP', 'RTU', 'DREQ', 'DREP'} <= set(read_mads(capture.path))


@SERVERS
def test_copy(guest, server, port, tmp_path):  # noqa: F811
    with Capture(guest.host) as capture:
        copy(guest, server, port, tmp_path, 4 * MI + 4321)
    check(guest, capture, ends=False)


@SERVERS
def test_datagrams(guest, server, port):  # noqa: F811
    with Capture(guest.host) as capture:
        pong(guest, server, port, '-S', 64, '-C', 10000)  # the first ones go over UDP
    report = check(guest, capture, ends=False)
    assert len(report.by_direction) == 2, report


# What remains is the whole matrix.


ONLY_RSTREAM = ['resolve', 'keepalive']


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('program, mode', [
    (program, mode) for program in ('rstream', 'riostream') for mode in MODES
    if mode != 'sockets' and not (program == 'riostream' and mode in ONLY_RSTREAM)])
def test_modes(guest, server, port, program, mode, request):  # noqa: F811
    if 'async' in mode and program == 'rstream' and server == VERBATIM:
        request.applymarker(pytest.mark.xfail(
            reason='rpoll of rdma-core tells POLLHUP beside POLLIN, which ends its rstream'))
    with Capture(guest.host) as capture:
        stream(guest, server, port, *MODES[mode], '-S', 20000, '-C', 100, '-I', 5, program=program)
    check(guest, capture, ends=False)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('size', [1, 64, 65, 4096, 65536, 1000003])
@pytest.mark.parametrize('mode', ['default', 'verify'])
def test_sizes(guest, server, port, mode, size):  # noqa: F811
    stream(guest, server, port, *MODES[mode], '-S', size, '-C', 20, '-I', 3, seconds=60)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('program', ['rstream', 'riostream'])
def test_all(guest, server, port, program):  # noqa: F811
    assert stream(guest, server, port, '-S', 'all', program=program, seconds=400)[0] == '6m_bw'


@pytest.mark.long
@SERVERS
def test_long_copy(guest, server, port, tmp_path):  # noqa: F811
    copy(guest, server, port, tmp_path, 64 * MI + 1)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('size', [16, 1000])
@pytest.mark.parametrize('mode', [[], ['-T', 'a'], ['-T', 'b']], ids=lambda mode: ''.join(mode))
def test_datagram_modes(guest, server, port, mode, size):  # noqa: F811
    pong(guest, server, port, *mode, '-S', size, '-C', 200)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('program', ['rstream', 'riostream'])
def test_with_losses(guest, server, port, program):  # noqa: F811
    """Verbatim loses one packet in a hundred of what it sends."""
    guest.host.env['VERBATIM_TEST_LOSS'] = '0.01,5'
    try:
        stream(guest, server, port, '-T', 'v', '-S', 65536, '-C', 20, '-I', 3, program=program)
    finally:
        del guest.host.env['VERBATIM_TEST_LOSS']
