"""Rsockets with rdma-core's own over Linux's soft-RoCE as the other end: each side as server and as
client, what crosses the tap checked like everything else.
"""
import hashlib
import os

import pytest

from harness import SLOWER, finish_both, wait_until
from netns import Capture
from test_cm import read_mads
from test_rsockets import MODES, row, start_server
from test_rxe import (RXE, SERVERS, VERBATIM, check, guest, running,  # noqa: F401, pylint: disable=unused-import
                      words)

pytestmark = pytest.mark.interop

MI = 1 << 20


def start_theirs(guest, argv, seconds=60):  # noqa: F811
    # What goes wrong is not to stay behind in the guest: nobody there ends with us.
    return guest.start(f'exec timeout -s KILL {seconds} {words(*argv)}')


def serve_theirs(guest, argv, port, seconds=60):  # noqa: F811
    """A server in the guest, which the kernel there knows to listen, or to have a UDP port."""
    server = start_theirs(guest, argv, seconds)
    name = os.path.basename(argv[0])
    try:
        guest.run(f'for i in $(seq 400); do rdma resource show cm_id | grep -q ":{port} .*LISTEN\\|LISTEN.*:{port}" '
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
    address = guest.host.address if server == VERBATIM else guest.address
    argv = ['udpong', '-p', port]
    return row(run_pair(guest, server, [*argv, '-b', address], [*argv, *options, '-s'], port,
                        ends=False, **more)[1])


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
    ('rstream', ['-S', 65536, '-C', 20, '-I', 2]),
    ('rstream', ['-T', 'v', '-S', 20001, '-C', 20, '-I', 2]),
    ('rstream', ['-T', 'a', '-T', 'n', '-S', 64, '-C', 200, '-I', 2]),
    ('riostream', ['-T', 'v', '-S', 65536, '-C', 20, '-I', 2]),
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
@pytest.mark.parametrize('options', [['-T', 'e', '-S', 64, '-C', 200],
                                     ['-T', 'e', '-S', 1000, '-C', 100]], ids=['64', '1000'])
def test_datagrams(guest, server, port, options):  # noqa: F811
    with Capture(guest.host) as capture:
        pong(guest, server, port, *options)
    report = check(guest, capture, ends=False)
    assert len(report.by_direction) == 2, report  # not over UDP
