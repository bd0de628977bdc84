# SPDX-License-Identifier: BSD-2-Clause
"""With Linux's siw as the other end of iWARP: each side connects and is connected to; tshark reads what
crosses the tap.
"""
import pytest

from harness import finish_both, free_port
from netns import Capture
from test_iwarp import IWARP, PROGRAMS, check_capture

pytestmark = pytest.mark.interop
FIRST = pytest.mark.first
LONG = pytest.mark.long
VERBATIM, SIW = 'verbatim', 'siw'
SERVERS = pytest.mark.parametrize('server', [VERBATIM, SIW], ids=lambda name: f'{name}_serves')
PERFTEST = [pytest.param('ib_send_bw', marks=FIRST), 'ib_write_bw', 'ib_read_bw', 'ib_send_lat', 'ib_write_lat',
            'ib_read_lat']


@pytest.fixture(scope='module')
def running(guest_with):
    return guest_with('siw')


@pytest.fixture
def guest(running):
    yield running
    running.host.release(*list(running.host.programs))
    for program in list(running.programs):
        running.release(program)


def run_pair(guest, server, server_argv, client_argv, port, seconds=60):
    """Both ends to their ends; what the server said, and the client. The address goes to the end of client_argv."""
    shell = f'exec timeout -s KILL {seconds + 20} '
    if server == VERBATIM:
        passive = guest.host.start_server(server_argv, port, env=IWARP)
        active = guest.start(shell + ' '.join(map(str, [*client_argv, guest.host.address])))
        ours, theirs = passive, active
    else:
        passive = guest.start(shell + ' '.join(map(str, server_argv)))
        guest.wait_listening(port, passive)
        active = guest.host.start(*client_argv, guest.address, env=IWARP)
        ours, theirs = active, passive
    try:
        finish_both((passive, active), seconds, lambda: f'\n{guest.run("dmesg | tail -5", status=None)}')
        return passive.output(), active.output()
    finally:
        guest.host.release(ours)
        guest.release(theirs)


def rping(guest, server, *options):
    port = free_port()
    argv = ['-v', '-V', '-p', port, *options]
    return run_pair(guest, server, ['rping', '-s', *argv], ['rping', '-c', *argv, '-a'], port)


@pytest.mark.first
@SERVERS
def test_rping(guest, server):
    """What crosses the tap is MPA, DDP and RDMAP to tshark, too."""
    with Capture(guest.host, selects='tcp') as capture:
        for output in rping(guest, server, '-C', 10):
            assert 'rdma-ping-9' in output, output
    check_capture(capture)


@SERVERS
@pytest.mark.parametrize('size', [1000, 60000])
def test_rping_large(guest, server, size):
    """rping compares the data; a line of its standard error may stand within one of its output."""
    for output in rping(guest, server, '-C', 5, '-S', size):
        assert 'ing-4: EFGH' in output, 'the fifth message is missing'


@SERVERS
@pytest.mark.parametrize('name', ['ucmatose', 'ucmatose-large', 'rdma_client'])
def test_programs(guest, server, name):
    passive, active, said = PROGRAMS[name]
    port = free_port()
    for output in run_pair(guest, server, [*passive, '-p', port], [active[0], *active[1:-1], '-p', port, active[-1]], port):
        assert said in output, output


@SERVERS
@pytest.mark.parametrize('program', PERFTEST)
def test_perftest(guest, server, program):
    port = free_port()
    argv = [program, '-R', '-F', '-n', 100, '-p', port]
    run_pair(guest, server, argv, argv, port)


@SERVERS
@pytest.mark.parametrize('program', ['rstream', 'riostream'])
def test_rsockets(guest, server, program):
    """The rsockets of rdma-core at the other end, which take immediates as SENDs."""
    port = free_port()
    argv = [program, '-T', 'v', '-S', 4096, '-C', 20, '-I', 2, '-p', port]
    for output in run_pair(guest, server, argv, [*argv, '-s'], port):
        assert 'usec/xfer' in output, output


@LONG
@SERVERS
@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_write_bw', 'ib_read_bw'])
@pytest.mark.parametrize('sizes', [('-a',), ('-s', 1)], ids=['from_2_bytes_to_8_MiB', '1_byte'])
def test_all_sizes(guest, server, program, sizes):
    port = free_port()
    argv = [program, '-R', '-F', *sizes, '-n', 20, '-p', port]
    run_pair(guest, server, argv, argv, port, seconds=200)


@SERVERS
@pytest.mark.parametrize('victim', ['the_server', 'the_client'])
def test_killed(guest, server, victim):
    """The other end of a program that dies gets DISCONNECTED."""
    port = free_port()
    serve, call = ['rping', '-s', '-v', '-P', '-p', port], ['rping', '-c', '-v', '-p', port, '-a']
    in_guest = 'exec timeout -s KILL 60 {}'.format
    if server == VERBATIM:
        passive = guest.host.start_server(serve, port, env=IWARP)
        active = guest.start(in_guest(' '.join(map(str, [*call, guest.host.address]))))
    else:
        passive = guest.start(in_guest(' '.join(map(str, serve))))
        guest.wait_listening(port, passive)
        active = guest.host.start(*call, guest.address, env=IWARP)
    active.wait_for('rdma-ping-2', 40)
    dies, lives = (passive, active) if victim == 'the_server' else (active, passive)
    if (dies is passive) == (server == VERBATIM):
        dies.signal(9)
    else:
        guest.run('killall -9 rping')
    lives.wait_for('DISCONNECT EVENT', 20)
