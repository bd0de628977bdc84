# SPDX-License-Identifier: BSD-2-Clause
"""iWARP over the kernel's TCP: rdma_cm's programs and perftest, untouched; on one host and between two."""
import contextlib
import re
import signal
import subprocess
import time

import pytest

from harness import HOST, SLOWER, cpu_ticks, free_port, wait_until
from netns import Cable, Capture
from test_routers import Rules, send_elsewhere

IWARP = {'VERBATIM_TRANSPORT': 'iwarp'}
PROGRAMS = {  # server, client without the address, what both say, option of the port
    'rping': (['rping', '-s', '-v', '-C', '20', '-V'], ['rping', '-c', '-v', '-C', '20', '-V', '-a'], 'rdma-ping-19'),
    'rping-large': (['rping', '-s', '-v', '-C', '5', '-S', '60000'],
                    ['rping', '-c', '-v', '-C', '5', '-S', '60000', '-a'], 'rdma-ping-4'),
    'rdma_client': (['rdma_server'], ['rdma_client', '-s'], 'end 0'),
    'ucmatose': (['ucmatose', '-c', '10'], ['ucmatose', '-c', '10', '-s'], 'return status 0'),
    'ucmatose-migrate': (['ucmatose', '-c', '10', '-m'], ['ucmatose', '-c', '10', '-m', '-s'], 'return status 0'),
    'ucmatose-large': (['ucmatose', '-S', '65536', '-C', '20'], ['ucmatose', '-S', '65536', '-C', '20', '-s'],
                       'return status 0'),
}
PERFTEST = ['ib_send_bw', 'ib_write_bw', 'ib_read_bw', 'ib_send_lat', 'ib_write_lat', 'ib_read_lat']


# On one host the path is shared memory, unless the user wants the stream.
WAYS = {'memory': IWARP, 'stream': {**IWARP, 'VERBATIM_PATH': 'wire'}}


def pair(runner, server, client, address, peer=None, seconds=20, env=None):
    """Both ends to their ends. The server listens at a port of TCP, which is the kernel's."""
    port = free_port()
    return runner.pair([*server, '-p', port], [*client, address, '-p', port], port, seconds=seconds, peer=peer,
                       env=env or IWARP)


@pytest.fixture
def fresh(fresh_runner):
    return fresh_runner()


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def way(request):
    return request.param


# In memory iWARP's devices work as RoCE's do, with which the other tests run these programs.
@pytest.fixture(params=[pytest.param(way, id=name, marks=[] if name == 'stream' else pytest.mark.long)
                        for name, way in WAYS.items()])
def way_some_long(request):
    return request.param


@pytest.mark.asan
@pytest.mark.parametrize('name', PROGRAMS)
def test_programs(fresh, way, name):
    server, client, said = PROGRAMS[name]
    for output in pair(fresh, server, client, HOST, env=way):
        assert said in output, output


def test_ipv6(fresh, way):
    server, client, said = PROGRAMS['rping']
    port = free_port()
    for output in fresh.pair([*server, '-a', '::1', '-p', port], [*client, '::1', '-p', port], port, env=way):
        assert said in output, output


@pytest.mark.parametrize('program', PERFTEST)
def test_perftest(fresh, way_some_long, program):
    argv = [program, '-R', '-F', '-n', 200]
    pair(fresh, argv, argv, HOST, seconds=30, env=way_some_long)


@pytest.mark.parametrize('options', [('-b',), ('-q', '4'), ('-I', '64', '-s', '64'), ('-r', '16', '-s', '1')],
                         ids=lambda words: ''.join(words))
def test_perftest_options(fresh, way_some_long, options):
    argv = ['ib_send_bw', '-R', '-F', '-n', 200, *options]
    pair(fresh, argv, argv, HOST, seconds=30, env=way_some_long)


@pytest.mark.parametrize('program', ['ib_send_lat', 'ib_read_lat', 'ib_read_bw'])
def test_perftest_events(fresh, way_some_long, program):
    argv = [program, '-R', '-F', '-n', 200, '-e']
    pair(fresh, argv, argv, HOST, seconds=30, env=way_some_long)


STREAMS = [('-S', 20000, '-C', 100, '-I', 5), ('-T', 'v', '-S', 65536, '-C', 50), ('-T', 'a', '-T', 'n', '-S', 64, '-C', 1000)]


@pytest.mark.parametrize('options', STREAMS, ids=['blocking', 'verified', 'nonblocking'])
@pytest.mark.parametrize('program', ['rstream', 'riostream'])
def test_rsockets(fresh, way_some_long, program, options):
    """Over iWARP the immediate data of rsockets are SENDs: RDMA_WRITE_WITH_IMM is no operation of RFC 5040."""
    argv = [program, *options]
    for output in pair(fresh, argv, [*argv, '-s'], HOST, env=way_some_long):
        assert 'usec/xfer' in output, output


CARDS = [  # server, client without the address
    (['rping', '-s', '-C', 20, '-V', '-S', 3000, '-a'], ['rping', '-c', '-C', 20, '-V', '-S', 3000, '-a']),
    (['riostream', *STREAMS[1], '-b'], ['riostream', *STREAMS[1], '-s']),
]


@pytest.mark.network
@pytest.mark.parametrize('index', [0, 1], ids=['ipv4', 'ipv6'])
@pytest.mark.parametrize('server, client', CARDS, ids=['rping', 'riostream'])
def test_between_cards(cables, server, client, index):
    """What network cards merge and split TCP sees as segments of other lengths."""
    cable = cables(1500, cards=True)
    address = cable.a.addresses[index]
    pair(cable.a, [*server, address], client, address, cable.b, seconds=60)


@pytest.mark.network
@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_read_bw', 'ib_send_bw'])
def test_perftest_between_cards(cables, program):
    cable = cables(1500, cards=True)
    argv = [program, '-R', '-F', '-n', 200]
    pair(cable.a, argv, argv, cable.a.address, cable.b, seconds=60)


@pytest.mark.network
@pytest.mark.parametrize('index', [0, 1], ids=['ipv4', 'ipv6'])
def test_between_hosts(cables, index):
    cable = cables(1500)
    address = cable.a.addresses[index]
    server, client, said = PROGRAMS['rping']
    port = free_port()
    for output in cable.a.pair([*server, '-a', address, '-p', port], [*client, address, '-p', port], port,
                               peer=cable.b, env=IWARP):
        assert said in output, output


@pytest.mark.network
@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_send_bw', 'ib_read_bw'])
def test_perftest_between_hosts(cables, program):
    cable = cables(1500)
    argv = [program, '-R', '-F', '-n', 200]
    pair(cable.a, argv, argv, cable.a.address, cable.b, seconds=30)


def test_device(fresh):
    """As siw shows itself: an RNIC with one GID, its MAC, and no P_Key."""
    output = fresh.run('ibv_devinfo', '-v', env=IWARP)
    assert re.search(r'hca_id:\s+vrbw_lo\n\s+transport:\s+iWARP \(1\)', output), output
    for name, value in (('atomic_cap', r'ATOMIC_NONE \(0\)'), ('max_ah', '0'), ('max_pkeys', '0'),
                        ('max_mcast_grp', '0'), ('max_sge_rd', '1'), ('link_layer', 'Ethernet'),
                        ('gid_tbl_len', '1')):
        assert re.search(rf'{name}:\s+{value}\n', output), (name, output)
    of = '/sys/class/infiniband/vrbw_lo'
    assert fresh.run('cat', f'{of}/node_type', f'{of}/ports/1/gid_attrs/types/0', env=IWARP) == '4: RNIC\nIB/RoCE v1\n'
    assert fresh.run('ls', f'{of}/ports/1/gids', env=IWARP) == '0\n'
    assert fresh.run('ls', f'{of}/ports/1/pkeys', env=IWARP) == ''


@pytest.mark.network
def test_gid_is_the_mac(cables):
    host = cables(1500).a
    mac = re.search(r'link/ether (\S+)', host.ip('-o', 'link', 'show', host.interface))[1].split(':')
    gid = host.run('cat', f'/sys/class/infiniband/vrbw_{host.interface}/ports/1/gids/0', env=IWARP).strip()
    assert gid.replace(':', '') == ''.join(mac) + 20 * '0'


@pytest.mark.parametrize('argv', [['ibv_ud_pingpong'], ['ibv_uc_pingpong'], ['udaddy'], ['mckey', '-m', '239.1.1.7', '-b', HOST]],
                         ids=lambda argv: '-'.join(argv))
def test_only_rc(fresh, argv):
    program = fresh.start(*argv, env={**IWARP, 'VERBATIM_EXPLAIN': '1'})
    assert program.wait(10 * SLOWER) not in (None, 0), program.report()


def test_nobody_listens(fresh):
    program = fresh.start('ucmatose', '-s', HOST, '-p', free_port(), env=IWARP)
    assert program.wait(10 * SLOWER) not in (None, 0)
    assert 'RDMA_CM_EVENT_REJECTED' in program.output(), program.report()


@pytest.mark.alone  # rping ends by a request that fails, too, if that is seen first
@pytest.mark.parametrize('victim', ['server', 'client'])
def test_killed(fresh, way, victim):
    """The kernel closes the connection of a process that dies; the other end gets DISCONNECTED."""
    port = free_port()
    server = fresh.start_server(['rping', '-s', '-v', '-P', '-p', port], port, env=way)
    client = fresh.start('rping', '-c', '-v', '-a', HOST, '-p', port, env=way)
    client.wait_for('rdma-ping-5')
    (server if victim == 'server' else client).signal(9)
    if victim == 'server':
        assert client.wait(10 * SLOWER) is not None, client.report()
        assert 'DISCONNECT' in client.output(), client.report()
        return
    server.wait_for('DISCONNECT EVENT')
    assert 'rdma-ping-4' in fresh.run('rping', '-c', '-v', '-C', '5', '-a', HOST, '-p', port, env=way)
    assert server.status is None, server.report()


def test_idle_connection_sleeps(fresh, way):
    """What a stopped client has sent last is answered; then there is nothing to do."""
    port = free_port()
    server = fresh.start_server(['rping', '-s', '-v', '-P', '-p', port], port, env=way)
    client = fresh.start('rping', '-c', '-v', '-a', HOST, '-p', port, env=way)
    client.wait_for('rdma-ping-5')
    client.signal(signal.SIGSTOP)
    time.sleep(0.2)
    before = cpu_ticks(server.pid)
    time.sleep(1)
    spent = cpu_ticks(server.pid) - before
    client.signal(signal.SIGCONT)
    assert spent <= 5, server.report()


def paths(runner, qps):
    """The paths of all QPs, once there are as many."""
    found = []

    def connected():
        found[:] = [qp['path'] for process in runner.show()['processes'] for qp in process['qps']]
        return len(found) == qps and 'none' not in found
    wait_until(connected, 10 * SLOWER, 'QPs on their paths')
    return set(found)


def test_one_host_is_shared_memory(fresh, way):
    port = free_port()
    fresh.start_server(['rping', '-s', '-P', '-p', port], port, env=way)
    client = fresh.start('rping', '-c', '-v', '-a', HOST, '-p', port, env=way)
    client.wait_for('rdma-ping-5')
    assert paths(fresh, 2) == {'local' if way is IWARP else 'tcp'}


def test_not_of_one_verbatimd(fresh, fresh_runner):
    """As two users are: neither finds the other's process, and the connection keeps to its stream."""
    other = fresh_runner()
    port = free_port()
    fresh.start_server(['rping', '-s', '-P', '-p', port], port, env=IWARP)
    client = other.start('rping', '-c', '-v', '-a', HOST, '-p', port, env=IWARP)
    client.wait_for('rdma-ping-5')
    assert paths(fresh, 1) == {'tcp'} and paths(other, 1) == {'tcp'}
    assert 'goes by TCP, not by shared memory' in other.tool('explain')


def check_capture(capture, operations=('Send', 'Write', 'Read Request', 'Read Response')):
    """tshark finds MPA's start-up, these of RDMAP, and nothing malformed."""
    # Others are named after some of the ports that a program may get: by their content first. What a SEND carries, such as
    # the four bytes of rsockets, tshark takes for RPC.
    shown = subprocess.run(['tshark', '-n', '-o', 'tcp.try_heuristic_first:TRUE', '--disable-protocol', 'rpcordma', '-r',
                            capture.path, '-V'],
                           capture_output=True, text=True, timeout=300, check=True).stdout
    capture.close()
    assert re.search('Request frame', shown, re.IGNORECASE) and re.search('Reply frame', shown, re.IGNORECASE)
    for operation in operations:
        assert re.search(rf'OpCode: {operation}', shown), (operation, sorted(set(re.findall('OpCode: .*', shown))))
    malformed = re.search('malformed', shown, re.IGNORECASE)
    assert not malformed, shown[:malformed.end() + 60].rpartition('\nFrame ')[2]


@pytest.mark.network
def test_dissected(cables):
    cable = cables(1500, segment=False)
    port = free_port()
    server, client, said = PROGRAMS['rping']
    with Capture(cable.a, selects=f'tcp port {port}') as capture:
        for output in cable.a.pair([*server, '-p', port], [*client, cable.a.address, '-p', port], port,
                                   peer=cable.b, env=IWARP):
            assert said in output, output
    check_capture(capture)


def crc32c(data):
    """RFC 3385's, bit by bit, without a table of anybody's."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def fpdus(stream):
    """(What the CRC of each FPDU covers, the CRC) of one direction, after MPA's start-up frame."""
    at = 20 + int.from_bytes(stream[18:20], 'big')
    while at < len(stream):
        length = int.from_bytes(stream[at:at + 2], 'big') + 2
        length += -length % 4
        yield stream[at:at + length], int.from_bytes(stream[at + length:at + length + 4], 'little')
        at += length + 4


def directions(capture):
    """The bytes of both directions of the capture's only connection."""
    shown = subprocess.run(['tshark', '-n', '-q', '-r', capture.path, '-z', 'follow,tcp,raw,0'], capture_output=True,
                           text=True, timeout=60, check=True).stdout
    lines = re.findall(r'^(\t?)([0-9a-f]+)$', shown, re.MULTILINE)
    return [bytes.fromhex(''.join(text for tab, text in lines if tab == which)) for which in ('', '\t')]


@pytest.mark.network
def test_crcs(cables):
    """Each CRC that crosses the cable is what this file computes."""
    cable = cables(1500, segment=False)
    port = free_port()
    server, client, said = PROGRAMS['rping']
    with Capture(cable.a, selects=f'tcp port {port}') as capture:
        for output in cable.a.pair([*server, '-p', port], [*client, cable.a.address, '-p', port], port, peer=cable.b,
                                   env={**IWARP, 'VERBATIM_IWARP_CRC': '1'}):
            assert said in output, output
    for stream in directions(capture):
        found = list(fpdus(stream))
        assert len(found) >= 20
        assert all(crc32c(covered) == crc for covered, crc in found)
    capture.close()


@pytest.mark.parametrize('options', [{'VERBATIM_IWARP_MARKERS': '1'}, {'VERBATIM_IWARP_MARKERS': '1', 'VERBATIM_IWARP_CRC': '1'}],
                         ids=['markers', 'markers_and_crcs'])
def test_markers(fresh, options):
    """Both ends ask for them."""
    server, client, said = PROGRAMS['rping-large']
    for output in pair(fresh, server, client, HOST, env={**WAYS['stream'], **options}):
        assert said in output, output


@pytest.mark.network
@pytest.mark.long
def test_silent_path():
    """No packet arrives any more, and no reset: each end gives the other up, with data under way or without."""
    with Cable(1500, name='iwsilent') as cable:
        port = free_port()
        server = cable.a.start_server(['rping', '-s', '-v', '-P', '-p', port], port, env=IWARP)
        client = cable.b.start('rping', '-c', '-v', '-a', cable.a.address, '-p', port, env=IWARP)
        client.wait_for('rdma-ping-5')
        with Rules(cable.a, 'ip', 'type filter hook prerouting priority -300', 'ip protocol tcp drop'):
            with Rules(cable.b, 'ip', 'type filter hook prerouting priority -300', 'ip protocol tcp drop'):
                server.wait_for('DISCONNECT EVENT', 60)
                client.wait_for('DISCONNECT EVENT', 60)


def rping_between(cable, server_host, client_host, address):
    server, client, said = PROGRAMS['rping']
    port = free_port()
    for output in server_host.pair([*server, '-p', port], [*client, address, '-p', port], port, peer=client_host,
                                   seconds=60, env=IWARP):
        assert said in output, output


@pytest.mark.network
def test_address_translation():
    """What RoCEv2 cannot: the client's address is another one at the server."""
    with Cable(1500, name='iwnat') as cable:
        outside = '10.78.0.101'
        cable.a.ip('addr', 'add', f'{outside}/32', 'dev', cable.a.interface)
        with Rules(cable.a, 'ip', 'type nat hook postrouting priority 100', f'ip protocol tcp counter snat to {outside}'):
            rping_between(cable, cable.b, cable.a, cable.b.address)
            assert re.search(r'packets [1-9]', cable.a.command('nft', 'list', 'ruleset')), 'nothing was translated'


@pytest.mark.network
def test_source_that_rules_send_elsewhere():
    """An own address stays one where policy routing has another route for packets to it."""
    with Cable(1500, name='iwrule') as cable:
        host = cable.a
        send_elsewhere(host)
        server, client, said = PROGRAMS['rping']
        port = free_port()
        for output in cable.b.pair([*server, '-p', port], [*client, cable.b.address, '-p', port, '-I', host.address], port,
                                   peer=host, env=IWARP):
            assert said in output, output


@pytest.mark.network
@pytest.mark.parametrize('percent', [1, 5])
def test_loss(cables, percent):
    """Packets that are lost are TCP's to repeat."""
    cable = cables(1500)
    rule = f'ip protocol tcp numgen random mod 100 < {percent} drop'
    with Rules(cable.a, 'ip', 'type filter hook prerouting priority -300', rule):
        rping_between(cable, cable.a, cable.b, cable.a.address)


EVERYTHING = {**PROGRAMS, **{program: ([program, '-R', '-F', '-n', 100], [program, '-R', '-F', '-n', 100], 'iterations')
                             for program in PERFTEST},
              **{f'{program}-{name}': ([program, *options], [program, *options, '-s'], 'usec/xfer')
                 for program in ('rstream', 'riostream') for name, options in (('blocking', STREAMS[0]), ('verified', STREAMS[1]))}}
SNAT = ('ip', 'type nat hook postrouting priority 100', 'ip protocol tcp counter snat to {}')
DROP = ('ip', 'type filter hook prerouting priority -300', 'ip protocol tcp numgen random mod 100 < {} drop')


@contextlib.contextmanager
def way_between(kind):
    """(The server's host, the client's, what is captured or None.)"""
    with Cable(1500, name=f'iw{kind}'[:10], segment=False, cards=kind == 'cards') as cable, contextlib.ExitStack() as stack:
        if kind == 'plain':  # what is captured is what leaves
            for host in (cable.a, cable.b):
                host.command('ethtool', '-K', host.interface, 'tso', 'off', 'gso', 'off')
        elif kind == 'nat':
            outside = '10.78.0.101'
            cable.a.ip('addr', 'add', f'{outside}/32', 'dev', cable.a.interface)
            stack.enter_context(Rules(cable.a, *SNAT[:2], SNAT[2].format(outside)))
        elif kind.startswith('loss'):
            stack.enter_context(Rules(cable.b, *DROP[:2], DROP[2].format(kind[4:])))
        yield cable.b, cable.a


@pytest.mark.network
@pytest.mark.long
@pytest.mark.parametrize('kind', ['plain', 'cards', 'nat', 'loss1', 'loss5'])
def test_everything_between_hosts(kind):
    """Each program over each way; what crosses a plain cable tshark reads."""
    with way_between(kind) as (server_host, client_host):
        for name, (server, client, said) in EVERYTHING.items():
            port = free_port()
            with Capture(server_host, selects=f'tcp port {port}') if kind == 'plain' else contextlib.nullcontext() as capture:
                outputs = server_host.pair([*server, '-p', port], [*client[:-1], client[-1], server_host.address, '-p', port]
                                           if client[-1] in ('-a', '-s') else [*client, server_host.address, '-p', port],
                                           port, peer=client_host, seconds=100, env=IWARP)
            assert any(said in output for output in outputs), (name, outputs)
            if capture:
                check_capture(capture, operations=())
