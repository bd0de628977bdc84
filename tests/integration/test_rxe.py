# SPDX-License-Identifier: BSD-2-Clause
"""With Linux's soft-RoCE as the other end: each side as server and as client, what crosses the tap
checked like everything else.
"""
import contextlib
import re
import subprocess
import time

import pytest

import roce
from harness import VERIFY, finish_both, free_port
from netns import Capture
from test_perftest import PROGRAMS, rows

pytestmark = pytest.mark.interop

KI = 1 << 10
MI = 1 << 20
PATH_MTU = {1500: 1024, 9000: 4096}
VERBATIM, RXE = 'verbatim', 'rxe'
FIRST = pytest.mark.first  # in `make test`, too
SERVERS = pytest.mark.parametrize('server', [VERBATIM, RXE], ids=lambda name: f'{name}_serves')


@pytest.fixture(scope='module', params=[
    1500, pytest.param(9000, marks=pytest.mark.long)])
def running(request, guest_with):
    """A module's tests for one MTU come before those for the next."""
    return guest_with('rxe', request.param)


@pytest.fixture
def guest(running):
    yield running
    running.host.release(*list(running.host.programs))
    for program in list(running.programs):
        running.release(program)


def words(*argv):
    return ' '.join(str(word) for word in argv)


def run_pair(guest, server, ours, theirs, port, seconds=40):
    """Both ends to their end; (Verbatim's output, rxe's output)."""
    # A program that hangs must not stay in the guest, where no process ends with the test.
    shell = f'export VERIFY_DEVICE=rxe0; exec timeout -s KILL {seconds + 20} '
    if server == VERBATIM:
        our_end = guest.host.start_server(ours, port)
        their_end = guest.start(shell + words(*theirs, guest.host.address))
    else:
        their_end = guest.start(shell + words(*theirs))
        guest.wait_listening(port, their_end)
        our_end = guest.host.start(*ours, guest.address)
    try:
        finish_both((our_end, their_end), seconds, lambda: (
            f'\n--- verbatim show\n{guest.host.tool("show", check=False)}'
            f'\n--- in the guest\n{guest.run("dmesg | tail -5", status=None)}'))
        return our_end.output(), their_end.output()
    finally:
        guest.host.release(our_end)
        guest.release(their_end)


def pingpong(guest, server, service, *options, family='ipv4'):
    port = free_port()
    argv = [f'ibv_{service}_pingpong', '-p', port, '-c', *options]
    (_, our_gid), (_, their_gid) = guest.ends(family)
    outputs = run_pair(guest, server, [*argv, '-d', guest.host.device, '-g', our_gid],
                       [*argv, '-d', 'rxe0', '-g', their_gid], port)
    for output in outputs:
        assert 'iters in' in output and 'invalid data' not in output, output


def perftest(guest, server, program, *options, sizes=None, seconds=40, family='ipv4'):
    port = free_port()
    argv = [program, '-F', '-p', port, *options]
    if 'read' in program or 'atomic' in program:
        argv += ['-o', 8]  # otherwise each asks for as many as its own device has
    (_, our_gid), (_, their_gid) = guest.ends(family)
    outputs = run_pair(guest, server, [*argv, '-d', guest.host.device, '-x', our_gid],
                       [*argv, '-d', 'rxe0', '-x', their_gid], port, seconds)
    found = rows(outputs[server == VERBATIM])
    assert found, f'no results\n{outputs}'
    if sizes:
        assert [int(row[0]) for row in found] == sizes


def verify(guest, server, service, op, sizes, *options, count=16, family='ipv4'):
    port = free_port()
    argv = ['data', '--port', port, '--service', service, '--op', op, '--listen', '0.0.0.0',
            '--sizes', ','.join(map(str, sizes)), '--count', count, '--depth', 8, *options]
    (_, our_gid), (_, their_gid) = guest.ends(family)
    outputs = run_pair(guest, server, [VERIFY, *argv, '--gid-index', our_gid],
                       ['/share/verify', *argv, '--gid-index', their_gid], port)
    for output in outputs:
        assert f'verified {len(sizes) * count} messages' in output, output


SILENCE_S = 10


def silence_s(capture, address):
    """For how long there has been no packet from `address`."""
    shown = subprocess.run(['tshark', '-n', '-r', capture.path, '-Y', f'ip.src == {address}', '-T', 'fields',
                            '-e', 'frame.time_epoch'], text=True, capture_output=True, timeout=30, check=False)
    times = shown.stdout.split()
    return time.time() - float(times[-1]) if times else 0


@contextlib.contextmanager
def captured(guest):
    """What crosses the tap. A request of rxe's that waits for an answer is sent again after its time-out of
    0.27 s, whatever the other end does. Debian 12's rxe stops that now and then (once in some forty runs), and
    its program waits for ever: that is no failure of the other end, and the test is skipped.
    """
    with Capture(guest.host) as capture:
        try:
            yield capture
        except AssertionError as error:
            if re.search(r'no completion within \d+ s \(send\)', str(error)) and \
                    silence_s(capture, guest.address) > SILENCE_S:
                pytest.skip(f'rxe has not repeated a request for {SILENCE_S} s')
            raise


def check(guest, capture, ends=True, family='ipv4'):
    report = roce.check(capture.path, PATH_MTU[guest.mtu], ends)
    ends = tuple(address for address, _ in guest.ends(family))
    assert set(report.by_direction) <= {ends, ends[::-1]}, report
    return report


@SERVERS
@pytest.mark.parametrize('service', [
    pytest.param('rc', marks=FIRST), 'uc', pytest.param('ud', marks=FIRST), 'srq'])
def test_pingpong(guest, server, service):
    with Capture(guest.host) as capture:
        options = ['-s', 1000] if service == 'ud' else ['-s', 5001, '-m', PATH_MTU[guest.mtu]]
        pingpong(guest, server, service, '-n', 50, *options)
    report = check(guest, capture, ends=service != 'srq')
    assert len(report.by_direction) == 2, report


@SERVERS
@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_write_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_read_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_atomic_bw', ['-n', 50]),
    ('ib_send_lat', ['-s', 1, '-n', 50]),
    ('ib_write_lat', ['-s', 1, '-n', 50]),
    ('ib_read_lat', ['-s', 1, '-n', 50]),
], ids=lambda value: value if isinstance(value, str) else '')
def test_perftest(guest, server, program, options):
    with Capture(guest.host) as capture:
        perftest(guest, server, program, *options)
    check(guest, capture)


@SERVERS
@pytest.mark.parametrize('service, op', [
    ('rc', 'send_imm'), ('rc', 'write_imm'), pytest.param('rc', 'read', marks=FIRST), ('rc', 'cas'), ('rc', 'faa'),
    ('ud', 'send_imm')])
def test_every_byte(guest, server, service, op):
    if service == 'ud':
        sizes = [1, 2, 3, 1000]
    else:
        sizes = [8] if op in ('cas', 'faa') else [0, 1, 2, 3, 1023, 1024, 1025, 10000, 65537]
    with captured(guest) if server == VERBATIM else Capture(guest.host) as capture:
        verify(guest, server, service, op, sizes)
    check(guest, capture)


# rxe sends no UDP checksum over IPv6; its GID 0 is its link-local address.
FAMILIES = pytest.mark.parametrize('family', ['ipv6', 'link_local'])


@SERVERS
@FAMILIES
@pytest.mark.parametrize('service', ['rc', 'ud'])
def test_ipv6_pingpong(guest, server, service, family):
    with Capture(guest.host) as capture:
        options = ['-s', 1000] if service == 'ud' else ['-s', 5001, '-m', PATH_MTU[guest.mtu]]
        pingpong(guest, server, service, '-n', 50, *options, family=family)
    report = check(guest, capture, family=family)
    assert len(report.by_direction) == 2, report


@SERVERS
@FAMILIES
@pytest.mark.parametrize('service, op', [
    ('rc', 'send'), ('rc', 'write'), pytest.param('rc', 'read', marks=FIRST), ('rc', 'cas'),
    ('rc', 'faa'), ('ud', 'send_imm')])
def test_ipv6_every_byte(guest, server, service, op, family):
    if service == 'ud':
        sizes = [1, 2, 3, 1000]
    else:
        sizes = [8] if op in ('cas', 'faa') else [0, 1, 3, 1023, 1025, 10000, 65537]
    with captured(guest) if server == VERBATIM else Capture(guest.host) as capture:
        verify(guest, server, service, op, sizes, family=family)
    check(guest, capture, family=family)


@SERVERS
@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_write_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_read_bw', ['-s', 64 * KI, '-n', 50]),
    ('ib_atomic_bw', ['-n', 50]),
], ids=lambda value: value if isinstance(value, str) else '')
def test_ipv6_perftest(guest, server, program, options):
    with Capture(guest.host) as capture:
        perftest(guest, server, program, *options, family='ipv6')
    check(guest, capture, family='ipv6')


# What remains is the whole matrix.

SIZES = [1, 2, 63, 1 * KI - 1, KI, KI + 1, 4 * KI, 64 * KI, MI]


def matrix():
    """All that both sides have; rxe has no XRC."""
    for program, service in PROGRAMS:
        for size in [8] if 'atomic' in program else SIZES:
            if service != 'XRC' and (service != 'UD' or size <= max(PATH_MTU.values())):
                yield pytest.param(program, service, size, id=f'{program}-{service}-{size}')


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('program, service, size', matrix())
def test_matrix(guest, server, program, service, size):
    if service == 'UD' and size > PATH_MTU[guest.mtu]:
        pytest.skip('longer than a datagram')
    options = [] if 'atomic' in program else ['-s', size]
    # UC and UD lose what the other end has no buffer for, and perftest waits for it.
    count = 20 if service == 'RC' else max(2, min(20, 40 * KI // size))
    if program.endswith('bw') and service != 'RC':
        options += ['-t', min(count, 8)]
    with Capture(guest.host) as capture:
        perftest(guest, server, program, '-c', service, '-n', max(count, 5), *options)
    check(guest, capture)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_write_bw', 'ib_read_bw'])
@pytest.mark.parametrize('options', [['-b'], ['-e'], ['-q', 4]],
                         ids=lambda value: ''.join(map(str, value)))
def test_modes(guest, server, program, options):
    if program == 'ib_write_bw' and options == ['-e']:
        pytest.skip('ib_write_bw has no events')
    perftest(guest, server, program, '-s', 8 * KI, '-n', 100, *options)


@pytest.mark.long
@SERVERS
@pytest.mark.parametrize('op', ['send', 'write', 'read'])
def test_every_byte_with_losses(guest, server, op):
    """Verbatim loses one packet in a hundred of what it sends: rxe repeats and is repeated to."""
    guest.host.env['VERBATIM_TEST_LOSS'] = '0.01,5'
    try:
        verify(guest, server, 'rc', op, [1, 5000, 65537], count=40)
    finally:
        del guest.host.env['VERBATIM_TEST_LOSS']
