# SPDX-License-Identifier: BSD-2-Clause
"""librdmacm: rdmacm-utils and perftest with -R, untouched; on one host, between two, and with Linux's
connection manager in a guest as the other end.
"""
import functools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

import hostile
import netns
import roce
from conftest import TABLES
from harness import BUILD, HOST, SLOWER, finish_both, free_port, is_listening, wait_until
from netns import Capture
from test_perftest import rows
from test_rxe import guest, running  # noqa: F401, pylint: disable=unused-import

LIBRDMACM = str(BUILD / 'src/cm/librdmacm.so.1')
LIBRDMACM_FILE = os.path.realpath(LIBRDMACM)
BOUND_MS = 100
REJECTED = 28


DO_NOT_LISTEN = ('mckey', 'qperf')  # a group's member; and qperf listens once it is asked to


def is_waiting(program):
    """Whether it uses our library and sleeps."""
    try:
        mapped = pathlib.Path(f'/proc/{program.pid}/maps').read_text(encoding='utf-8')
        stat = pathlib.Path(f'/proc/{program.pid}/stat').read_text(encoding='utf-8')
    except (FileNotFoundError, ProcessLookupError):
        return False
    return LIBRDMACM_FILE in mapped and stat[stat.rindex(')') + 2] == 'S'


def start_server(runner, argv, **options):
    """Returns when it listens; if it does not listen for rdma_cm, when it has slept for a while."""
    server = runner.start(*argv, **options)
    calm = 0

    def ready():
        nonlocal calm
        if server.status is not None:
            raise AssertionError(f'the server ended before it listened\n{server.report()}')
        time.sleep(0.01)
        if argv[0] not in DO_NOT_LISTEN:
            return is_waiting(server) and runner.listens(server)
        calm = calm + 1 if is_waiting(server) else 0
        return calm >= 12
    wait_until(ready, 10 * SLOWER, f'{argv} listens')
    return server


@functools.cache
def rping_may_hang():
    """From rdma-core 65 on rping's second thread waits for an event with poll, then takes it with a call that
    blocks; rdma_destroy_id of the first thread takes it away in between, over an adapter too.
    """
    return b'eventfd' in pathlib.Path(shutil.which('rping')).read_bytes()


def pair(runner, server_argv, client_argv, peer=None, seconds=30, **options):
    """Both to their ends; (server's output, client's output)."""
    attempts = 5 if client_argv[0] == 'rping' and rping_may_hang() else 1
    for attempt in range(1, attempts + 1):
        try:
            return pair_once(runner, server_argv, client_argv, peer, seconds if attempts == 1 else 10, **options)
        except AssertionError as error:
            if not str(error).startswith('not ended in') or attempt == attempts:
                raise
    return None


def pair_once(runner, server_argv, client_argv, peer, seconds, **options):
    peer = peer or runner
    server = start_server(runner, server_argv, **options)
    client = peer.start(*client_argv, **options)
    try:
        finish_both((server, client), seconds)
        return server.output(), client.output()
    finally:
        peer.release(client)
        runner.release(server)


@pytest.fixture
def fresh(fresh_runner):
    """A daemon of its own: its port space is empty."""
    return fresh_runner()


# name: server's words, client's words but for the address, what both say
PROGRAMS = {
    'rping': (['rping', '-s', '-v', '-C', '20', '-V'], ['rping', '-c', '-v', '-C', '20', '-V', '-a'],
              'rdma-ping-19'),
    'rping-q': (['rping', '-s', '-q', '-v', '-C', '5'], ['rping', '-c', '-q', '-v', '-C', '5', '-a'],
                'rdma-ping-4'),
    'rping-large': (['rping', '-s', '-v', '-C', '5', '-S', '60000'],
                    ['rping', '-c', '-v', '-C', '5', '-S', '60000', '-a'], 'rdma-ping-4'),
    'rdma_client': (['rdma_server'], ['rdma_client', '-s'], 'end 0'),
    'rdma_xclient': (['rdma_xserver'], ['rdma_xclient', '-s'], 'end 0'),
    'ucmatose': (['ucmatose', '-c', '10'], ['ucmatose', '-c', '10', '-s'], 'return status 0'),
    'ucmatose-migrate': (['ucmatose', '-c', '10', '-m'], ['ucmatose', '-c', '10', '-m', '-s'],
                         'return status 0'),
    'ucmatose-large': (['ucmatose', '-S', '65536', '-C', '20'],
                       ['ucmatose', '-S', '65536', '-C', '20', '-s'], 'return status 0'),
    'udaddy': (['udaddy', '-c', '5'], ['udaddy', '-c', '5', '-s'], 'return status 0'),
    'ucmatose-ib': (['ucmatose', '-c', '2', '-P', 'ib'], ['ucmatose', '-c', '2', '-P', 'ib', '-s'],
                    'return status 0'),
}


def run_program(runner, name, address, peer=None, **options):
    server, client, said = PROGRAMS[name]
    for output in pair(runner, server, [*client, address], peer, **options):
        assert said in output, output


@pytest.mark.asan
@pytest.mark.parametrize('name', PROGRAMS)
def test_programs(fresh, name):
    run_program(fresh, name, HOST)


def test_listeners_are_shown(fresh):
    port = free_port()
    server = start_server(fresh, ['rping', '-s', '-P', '-a', HOST, '-p', port])
    (listener,) = fresh.show()['listeners']
    assert (listener['port_space'], listener['address'], listener['port'], listener['pid'], listener['program']) == (
        'TCP', HOST, port, server.pid, 'rping')
    assert re.search(rf'^TCP +{HOST}:{port} +{server.pid} +rping$', fresh.tool('show'), re.MULTILINE)
    fresh.release(server)
    wait_until(lambda: not fresh.show()['listeners'], 5 * SLOWER, 'no listener is left')


@pytest.mark.asan
def test_xrc(fresh):
    for output in pair(fresh, ['rdma_xserver', '-c', 'x'], ['rdma_xclient', '-c', 'x', '-s', HOST]):
        assert 'end 0' in output


@pytest.mark.asan
def test_ipv6(fresh):
    for output in pair(fresh, ['rping', '-s', '-v', '-C', '3', '-a', '::1'],
                       ['rping', '-c', '-v', '-C', '3', '-a', '::1']):
        assert 'rdma-ping-2' in output


@pytest.mark.asan
def test_multicast(fresh):
    argv = ['mckey', '-m', '239.1.1.7', '-b', HOST]
    for output in pair(fresh, argv, [*argv, '-s']):
        assert 'return status 0' in output


@pytest.mark.alone
def test_multicast_to_a_late_member(fresh):
    """mckey joins, pauses for some seconds, posts, and ends at once: who joined in the pause gets it all."""
    argv = ['mckey', '-m', '239.1.1.7', '-b', HOST]
    sender = fresh.start(*argv, '-s')
    time.sleep(1)
    receiver = fresh.start(*argv)
    finish_both((sender, receiver), 30)
    assert 'return status 0' in receiver.output()
    fresh.release(sender, receiver)


@pytest.mark.asan
def test_persistent_server(fresh):
    """Clients that come one after another and stay: rping loses one of two that come at once."""
    server = start_server(fresh, ['rping', '-s', '-P'])
    clients = []
    for _ in range(8):
        clients.append(fresh.start('rping', '-c', '-a', HOST, '-v'))
        clients[-1].wait_for('rdma-ping-2')
    for client in clients:
        fresh.release(client)
    assert 'rdma-ping-2' in fresh.run('rping', '-c', '-a', HOST, '-C', '5', '-v')
    assert server.status is None, server.report()


@pytest.mark.asan
def test_nobody_listens(fresh):
    program = fresh.start('ucmatose', '-s', HOST)
    assert program.wait(10 * SLOWER) not in (None, 0)
    assert 'RDMA_CM_EVENT_REJECTED, error: 8' in program.output()


@pytest.mark.asan
def test_addresses_by_gid(fresh):
    """As with RoCE adapters there is no device that has one (AF_IB), and the program says so."""
    for argv in (['ucmatose', '-f', 'gid', '-b', '::1'], ['ucmatose', '-f', 'gid', '-s', '::1'],
                 ['udaddy', '-f', 'gid', '-s', '::1']):
        program = fresh.start(*argv, env={'VERBATIM_EXPLAIN': '1'})
        assert program.wait(10 * SLOWER) not in (None, 0), program.report()
        assert 'No such device' in program.output(), program.report()
        assert 'AF_IB' in program.output(), program.report()
        fresh.release(program)


@pytest.mark.asan
def test_program_refuses(fresh):
    """A server that was told of one connection refuses the second, by the consumer's reason; and ends,
    whereupon the first may fail before the client has heard of the second.
    """
    server = start_server(fresh, ['ucmatose', '-c', '1'])
    client = fresh.start('ucmatose', '-c', '2', '-s', HOST)
    assert client.wait(10 * SLOWER) not in (None, 0)
    assert re.search(rf'RDMA_CM_EVENT_(REJECTED, error: {REJECTED}|CONNECT_ERROR)', client.output())
    fresh.release(server)


PERFTEST = [(f'ib_{operation}_{kind}', service)
            for operation, services in {'send': ['RC', 'UD'], 'write': ['RC'], 'read': ['RC'],
                                        'atomic': ['RC']}.items()
            for kind in ('bw', 'lat') for service in services]


def run_perftest(runner, program, service, address, peer=None, **options):
    port = free_port()
    argv = [program, '-R', '-F', '-p', port, '-n', 100, '-c', service]
    _, output = pair(runner, argv, [*argv, address], peer, **options)
    assert rows(output), f'no results\n{output}'


@pytest.mark.parametrize('program, service', PERFTEST)
def test_perftest(runner, program, service):
    run_perftest(runner, program, service, HOST)


def run_qperf(runner, address, tests, peer=None, **options):
    server = start_server(runner, ['qperf'], **options)
    output = (peer or runner).run('qperf', '-cm', '1', '-t', '1', address, *tests, seconds=30, **options)
    assert len(re.findall(r'^ +(?:latency|bw|send_bw) +=', output, re.MULTILINE)) == len(tests), output
    runner.release(server)


def test_qperf(fresh):
    run_qperf(fresh, HOST, ['rc_lat', 'rc_bw'])


def test_qperf_datagrams(fresh):
    """Its datagrams are addressed by LID alone; it says itself that -cm makes no difference to them."""
    run_qperf(fresh, HOST, ['rc_lat', 'ud_lat', 'ud_bw'], env={'VERBATIM_LINK_LAYER': 'infiniband'})


# --------------------------------------------------------------------------------------------
# Death.

def say_when(program, texts, since, seconds=5):
    """ms from `since` until the program said one of them."""
    wait_until(lambda: any(text in program.output() for text in texts), seconds * SLOWER,
               ' or '.join(texts))
    return (time.monotonic() - since) * 1000


def kill_one(runner, victim, other, *texts):
    time.sleep(0.2)
    since = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    took = say_when(other, texts, since)
    runner.release(victim)
    return took


@pytest.mark.alone
@pytest.mark.asan
@pytest.mark.parametrize('victim', ['client', 'server'])
def test_killed(fresh, victim):
    server = start_server(fresh, ['rping', '-s', '-v'])
    client = fresh.start('rping', '-c', '-v', '-a', HOST)
    client.wait_for('rdma-ping-5')
    ends = {'client': client, 'server': server}
    (other,) = set(ends) - {victim}
    # rping's other thread may see the requests that were flushed first, and put the connection away
    # before the event is told (cm/ids in tests/unit tells for sure)
    took = kill_one(fresh, ends[victim], ends[other], f'{other} DISCONNECT EVENT',
                    'cq completion failed')
    assert took < BOUND_MS * SLOWER, f'{took:.0f} ms'


# --------------------------------------------------------------------------------------------
# Many connections: at once, and one after another.

BLAST = BUILD / 'tests/integration/blast/blast'
REDIAL = BUILD / 'tests/integration/redial/redial'
AT_ONCE = 1000
IN_A_LOOP = 10000
TIMEWAIT_S = 1.1  # twice the QPs' time-out, as redial's library has it
# By how much memory may be more after IN_A_LOOP more connections: by 4 bytes of a program's heap for each, where the
# least that malloc gives is 24. What the system counts for a process depends also on how many were there together
# by chance: 400 bytes for each of a program (a lost mapping takes 4096), 100 of verbatimd (an identifier 400, a
# connection 1000).
HEAP_BYTES = 4 * IN_A_LOOP
PROGRAM_KIB = 4096
DAEMON_KIB = 1024


def files(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def memory(pid):
    """KiB of its own: the rest is a row in a table for each QP number, which come again in the end."""
    status = pathlib.Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
    return int(re.search(r'RssAnon:\s+(\d+)', status)[1])


def count_qps(runner):
    return sum(len(process['qps']) for process in runner.show()['processes'])


def tell_rate(request, line):
    """Also those who only read the end of the output shall see it."""
    print(line)
    request.config.stash[TABLES].setdefault('connections', []).append(line)


def cmtime(runner, count, peer=None, address=HOST, seconds=60):
    """Makes connections all at once and takes them down; returns the client's table."""
    usage = subprocess.run(['cmtime', '-h'], capture_output=True, text=True, check=False)
    if 'controller_address' in usage.stdout + usage.stderr:  # of rdma-core 65: the ends meet by TCP first
        if peer:
            pytest.skip('cmtime of rdma-core 65 wants the address of each end')
        port = free_port()
        ends = ['cmtime', '-C', address, '-b', address, '-p', port, '-c', count]
        server = runner.start(*ends, '-L')
        wait_until(lambda: is_listening(port), 10 * SLOWER, 'cmtime listens')
        client = runner.start(*ends)
    else:
        server = start_server(runner, ['cmtime', '-c', count])
        client = (peer or runner).start('cmtime', '-c', count, '-s', address)
    try:
        output = client.finish(seconds)
        assert 'destroy' in output and 'failure' not in output, output
        return output
    finally:
        (peer or runner).release(client)
        runner.release(server)


class Redial:
    """A server and a client that stay, and what they and their daemons have."""

    def __init__(self, passive, active, address):
        self.runners = passive, active
        port = free_port()
        self.server = passive.start(REDIAL, 'serve', address, port)
        self.server.wait_for('listens')
        self.client = active.start(REDIAL, 'dial', address, port, stdin=subprocess.PIPE)
        self.rounds = 0

    def dial(self, count, at_once, seconds=60):
        """How it went, in the client's words."""
        self.client.process.stdin.write(f'{count} {at_once}\n'.encode())
        self.client.process.stdin.flush()
        self.rounds += 1

        def done():
            for end in (self.client, self.server):
                assert end.status is None, self.client.report() + self.server.report()
            return self.client.output().count('per second') == self.rounds
        wait_until(done, seconds * SLOWER, f'{count} connections\n{self.client.report()}')
        return self.client.output().splitlines()[-1]

    def possessions(self):
        """{who: (descriptors, KiB, bytes in use)}, once all connections are forgotten. None of their QPs may
        be left.
        """
        wait_until(lambda: not any(map(count_qps, self.runners)), 5 * SLOWER, 'no QPs are left')
        time.sleep(TIMEWAIT_S + 0.5)
        processes = {'server': self.server.pid, 'client': self.client.pid}
        for name, runner in zip(('its daemon', "the client's daemon"), self.runners):
            (processes[name],) = runner.daemons()
        heaps = {name: int(re.findall(r'^idle, (\d+) bytes$', end.output(), re.MULTILINE)[-1])
                 for name, end in (('server', self.server), ('client', self.client))}
        return {name: (files(pid), memory(pid), heaps.get(name, 0)) for name, pid in processes.items()}


def what_grew(before, after):
    """What has more than it had, of all possessions; '' if nothing has."""
    for name, (descriptors, kib, heap_bytes) in after.items():
        if (descriptors != before[name][0] or heap_bytes > before[name][2] + HEAP_BYTES or
                kib > before[name][1] + (DAEMON_KIB if 'daemon' in name else PROGRAM_KIB)):
            return f'{name}: {before} before, {after} after'
    return ''


def redial_without_loss(request, where, passive, active, address):
    """As many at once, and as many one after another, as are promised. The first rounds fill caches and
    heaps, whose level depends on how many were at the same stage at once: so there may be more rounds
    until one adds nothing. A leak adds to each.
    """
    redial = Redial(passive, active, address)
    redial.dial(2 * AT_ONCE, AT_ONCE)
    redial.dial(IN_A_LOOP // 2, 50)
    before = redial.possessions()
    for _ in range(3):
        for count, at_once in (IN_A_LOOP, 50), (2 * AT_ONCE, AT_ONCE):
            tell_rate(request, f'{where}: {redial.dial(count, at_once)}')
        after = redial.possessions()
        grew = what_grew(before, after)
        if not grew:
            return
        before = after
    raise AssertionError(grew)


def test_many(request, fresh):
    redial_without_loss(request, 'one host', fresh, fresh, HOST)


def tell_cmtime(request, where, table):
    """Of the steps that make a connection, how many of them are made in a second; and the table. From rdma-core
    56 on cmtime prints microseconds, more steps, and a second table, for connections without QPs.
    """
    steps = re.findall(r'^(\S[\w ]+?) *: +([\d.]+)', table, re.MULTILINE)
    making = [float(ms) for name, ms in steps if name not in ('disconnect', 'destroy')]
    if not steps:
        first = table.split('cm_conn')[0]
        steps = [(name, float(us) / 1000)
                 for name, us in re.findall(r'^(\w[\w ]+?) +\d+ +(\d+)(?: +\d+){4}$', first, re.MULTILINE)]
        making = [ms for name, ms in steps if name == 'full connect']
    assert len(making) in (1, 5), table
    tell_rate(request, f'{where}, cmtime: {AT_ONCE / sum(making) * 1000:.0f} connections per second')
    for name, ms in steps:
        tell_rate(request, f'    {name:13} {float(ms) * 1000 / AT_ONCE:8.1f} us')


def test_cmtime(request, fresh):
    tell_cmtime(request, 'one host', cmtime(fresh, AT_ONCE))


@pytest.mark.asan
def test_daemon_is_killed(fresh):
    """A listener that sleeps is the next one's, too."""
    server = start_server(fresh, ['rping', '-s', '-v', '-C', '3'])
    (daemon,) = fresh.daemons()
    os.kill(daemon, signal.SIGKILL)
    fresh.run('rping', '-c', '-v', '-C', '3', '-a', HOST)
    assert server.wait(5) == 0
    fresh.release(server)
    run_program(fresh, 'rdma_client', HOST)


# --------------------------------------------------------------------------------------------
# Between hosts.

MADS = {0x10: 'REQ', 0x11: 'MRA', 0x12: 'REJ', 0x13: 'REP', 0x14: 'RTU', 0x15: 'DREQ', 0x16: 'DREP',
        0x17: 'SIDR_REQ', 0x18: 'SIDR_REP', 0x19: 'LAP', 0x1a: 'APR'}


def read_mads(path, complete=True):
    """The messages of a capture as tshark takes it apart; an error if it cannot. Not `complete`: it may grow."""
    def tshark(*words):
        return subprocess.run(['tshark', '-r', path, *words], check=complete, capture_output=True,
                              text=True, timeout=60).stdout
    bad = tshark('-Y', 'infiniband.bth.destqp == 1 && (_ws.malformed || _ws.expert.severity >= 0x600000)')
    assert not bad, bad
    found = tshark('-Y', 'infiniband.mad.attributeid && infiniband.mad.mgmtclass == 7', '-T', 'fields',
                   '-e', 'infiniband.mad.attributeid', '-e', 'udp.srcport', '-e', 'frame.number')
    return [MADS[int(line.split()[0], 16)] for line in found.splitlines()]


@pytest.mark.network
@pytest.mark.parametrize('name', ['rping', 'rping-q', 'rdma_client', 'ucmatose', 'udaddy'])
def test_network(cables, name):
    cable = cables(1500, segment=False)
    with Capture(cable.a) as capture:
        run_program(cable.a, name, cable.a.address, peer=cable.b)
    mads = read_mads(capture.path)
    wanted = {'SIDR_REQ', 'SIDR_REP'} if name == 'udaddy' else {'REQ', 'REP', 'RTU', 'DREQ'}
    assert wanted <= set(mads), mads


@pytest.mark.network
def test_network_ipv6(cables):
    cable = cables(1500)
    for address in (cable.a.addresses[1], f'{cable.a.addresses[2]}%{cable.a.interface}'):
        for output in pair(cable.a, ['rping', '-s', '-v', '-C', '3', '-a', address],
                           ['rping', '-c', '-v', '-C', '3', '-a', address], peer=cable.b):
            assert 'rdma-ping-2' in output


@pytest.mark.network
def test_network_multicast(cables):
    cable = cables(1500)
    argv = ['mckey', '-m', '239.1.1.7', '-b']
    for output in pair(cable.a, [*argv, cable.a.address], [*argv, cable.b.address, '-s'],
                       peer=cable.b):
        assert 'return status 0' in output


@pytest.mark.network
def test_network_multicast_of_an_interface_made_anew(cables):
    """The receiver, which runs on, gets what is sent to its group by the new interface, too."""
    cable = cables(1500)
    argv = ['mckey', '-m', '239.1.1.7', '-b']
    server = start_server(cable.a, [*argv, cable.a.address, '-C', '20'])
    try:
        cable.b.run(*argv, cable.b.address, '-s', '-C', '10')
        cable.make_anew()
        wait_until(lambda: '239.1.1.7' in cable.a.ip('maddr', 'show', 'dev', netns.INTERFACE), 10, 'joined again')
        assert server.status is None, server.report()
        cable.b.run(*argv, cable.b.address, '-s', '-C', '10')
        assert server.wait(20) == 0, server.report()
    finally:
        cable.a.release(server)


@pytest.mark.network
def test_network_persistent_server(cables):
    cable = cables(1500)
    server = start_server(cable.a, ['rping', '-s', '-P'])
    for _ in range(3):
        assert 'rdma-ping-2' in cable.b.run('rping', '-c', '-a', cable.a.address, '-C', '3', '-v')
    assert server.status is None, server.report()
    cable.a.release(server)


@pytest.mark.network
def test_network_qperf(cables):
    cable = cables(1500)
    run_qperf(cable.a, cable.a.address, ['rc_lat', 'rc_bw'], cable.b)


@pytest.mark.network
@pytest.mark.parametrize('program, service', PERFTEST)
def test_network_perftest(cables, program, service):
    cable = cables(1500)
    run_perftest(cable.a, program, service, cable.a.address, peer=cable.b)


@pytest.mark.network
def test_network_refused(cables):
    cable = cables(1500)
    keeper = start_server(cable.a, ['rping', '-s', '-p', '4000'])
    program = cable.b.start('ucmatose', '-s', cable.a.address)
    assert program.wait(10 * SLOWER) not in (None, 0)
    assert 'RDMA_CM_EVENT_REJECTED, error: 8' in program.output()
    assert keeper.status is None


def make_lap(source, target):
    """Proposes an alternate path for a connection that does not exist."""
    mad = struct.pack('>BBBBIQHHI', 1, 7, 2, 3, 0, 77, 0x19, 0, 0) + struct.pack('>II', 11, 22)
    body = hostile.bth(0x64, 1, 0, ack_req=False) + struct.pack('>II', 0x80010000, 1)
    return hostile.signed(source, target, body + mad.ljust(256, b'\0'))


SEND = ('import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW);'
        's.sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 0))')


@pytest.mark.network
def test_network_alternate_path(cables):
    cable = cables(1500, segment=False)
    server = start_server(cable.a, ['rping', '-s', '-v'])
    packet = make_lap(cable.b.address, cable.a.address)
    with Capture(cable.a) as capture:
        cable.b.command(sys.executable, '-c', SEND, packet.hex(), cable.a.address)
        wait_until(lambda: 'APR' in read_mads(capture.path, complete=False), 10 * SLOWER, 'the answer')
    assert read_mads(capture.path) == ['LAP', 'APR']
    cable.a.release(server)


@pytest.mark.alone
@pytest.mark.network
@pytest.mark.parametrize('victim', ['client', 'server'])
def test_network_killed(cables, victim):
    cable = cables(1500)
    server = start_server(cable.a, ['rping', '-s', '-v'])
    client = cable.b.start('rping', '-c', '-v', '-a', cable.a.address)
    client.wait_for('rdma-ping-5')
    ends = {'client': client, 'server': server}
    runners = {'client': cable.b, 'server': cable.a}
    (other,) = set(ends) - {victim}
    took = kill_one(runners[victim], ends[victim], ends[other], f'{other} DISCONNECT EVENT')
    assert took < BOUND_MS * SLOWER, f'{took:.0f} ms'


@pytest.mark.network
@pytest.mark.soak
def test_network_many(request):
    """With no more ports to give than are in use at once, and two times that: each comes back."""
    with netns.Cable(1500, name='many') as cable:
        for host in cable.hosts:
            host.command('sysctl', '-w', f'net.ipv4.ip_local_port_range=40000 {40000 + 2 * AT_ONCE - 1}')
        redial_without_loss(request, 'two hosts', *cable.hosts, cable.a.address)


@pytest.mark.network
def test_network_cmtime(request, cables):
    cable = cables(1500)
    table = cmtime(cable.a, AT_ONCE, peer=cable.b, address=cable.a.address)
    tell_cmtime(request, 'two hosts', table)


XRC = 3
EXTENDED_XRC = 1


@pytest.mark.network
def test_network_xrc(cables):
    cable = cables(1500, segment=False)
    with Capture(cable.a) as capture:
        outputs = pair(cable.a, ['rdma_xserver', '-c', 'x'],
                       ['rdma_xclient', '-c', 'x', '-s', cable.a.address], peer=cable.b)
    for output in outputs:
        assert 'end 0' in output
    read_mads(capture.path)
    kinds = subprocess.run(
        ['tshark', '-r', capture.path, '-Y', 'infiniband.mad.attributeid == 0x10', '-T', 'fields',
         '-e', 'infiniband.cm.req.transpsvctype', '-e', 'infiniband.cm.req.ext_transport'],
        check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    assert kinds, 'no REQ was captured'
    for kind in kinds:
        assert [int(word, 0) for word in kind.split()] == [XRC, EXTENDED_XRC], kinds


# name: where the sender's number, and that of its QP, are in the MAD (IBA tables 99 and 103)
NUMBERS = {0x10: (24, 24 + 32), 0x13: (24, 24 + 12)}
DREQ = 0x15
IP_UDP_BTH_DETH = 20 + 8 + 12 + 8
GUESSES = 1000


def read_numbers(path):
    """{REQ or REP: (number, QPN)} of the one connection in a capture."""
    found = {}
    for number, when, datagram in roce.datagrams(path):
        packet = roce.decode(number, when, datagram)
        mad = datagram[IP_UDP_BTH_DETH:]
        kind = int.from_bytes(mad[16:18], 'big')
        if packet and packet.qpn == 1 and kind in NUMBERS:
            own, qpn = NUMBERS[kind]
            found[MADS[kind]] = (int.from_bytes(mad[own:own + 4], 'big'),
                                 int.from_bytes(mad[qpn:qpn + 3], 'big'))
    return found['REQ'], found['REP']


def make_dreq(source, target, sender, receiver, qpn):
    """A datagram that says that the sender's connection ends."""
    mad = bytearray(256)
    mad[:4] = 1, 7, 2, 3
    mad[16:18] = DREQ.to_bytes(2, 'big')
    mad[24:35] = struct.pack('>II', sender % 2**32, receiver % 2**32) + qpn.to_bytes(3, 'big')
    deth = struct.pack('>II', 0x80010000, 1)
    return hostile.signed(source, target, hostile.bth(0x64, 1, 0, ack_req=False) + deth + bytes(mad))


def send_datagrams(sender, receiver, path, datagrams):
    path.write_bytes(b''.join(struct.pack('=I', len(one)) + one for one in datagrams))
    mac = re.search(r'link/ether (\S+)', receiver.ip('link', 'show', receiver.interface))[1]
    sender.command(BLAST, sender.interface, mac, path, 0.2, 1, 'inf')


@pytest.mark.network
def test_network_forged(cables, tmp_path):
    """Who has a connection, and may say what it likes from the address of another one's peer, does not end
    that other one: what it knows of the numbers of its own says nothing of theirs.
    """
    cable = cables(1500, segment=False)
    port = free_port()
    server = start_server(cable.a, ['rping', '-s', '-P', '-v', '-p', port])
    clients, numbers = [], []
    for name in 'own', 'other':
        with Capture(cable.a, tmp_path / name, complete=False) as capture:
            clients.append(cable.b.start('rping', '-c', '-v', '-a', cable.a.address, '-p', port, '-V'))
            clients[-1].wait_for('rdma-ping-2')
        numbers.append(read_numbers(capture.path))
    ((_, (own, _))), ((asked, _), (answered, qpn)) = numbers

    def dreq(sender, receiver):
        return make_dreq(cable.b.address, cable.a.address, sender, receiver, qpn)
    near = [dreq(sender, own + step) for step in range(-GUESSES, GUESSES) for sender in (0, asked)]
    send_datagrams(cable.b, cable.a, tmp_path / 'guesses', [*near, dreq(0, answered),
                                                            dreq(asked + 1, answered)])
    assert 'DISCONNECT' not in server.output()
    assert all(client.status is None for client in clients)
    # Had it known them, it would have been believed.
    send_datagrams(cable.b, cable.a, tmp_path / 'right', [dreq(asked, answered)])
    server.wait_for('server DISCONNECT EVENT')


@pytest.mark.network
def test_network_loss(cables):
    """A third of all packets is lost on the way: what is lost is repeated."""
    cable = cables(1500)
    rule = ('dev', cable.a.interface, 'root')
    try:
        cable.a.command('tc', 'qdisc', 'add', *rule, 'netem', 'loss', '30%')
    except AssertionError as error:
        pytest.skip(str(error))
    try:
        run_program(cable.a, 'rdma_client', cable.a.address, peer=cable.b, seconds=90)
    finally:
        cable.a.command('tc', 'qdisc', 'del', *rule)


# --------------------------------------------------------------------------------------------
# With Linux's own connection manager and soft-RoCE.

INTEROP = ['rping', 'rdma_client', 'ucmatose']


def in_guest(guest, argv, seconds=60):  # noqa: F811
    words = ' '.join(str(word) for word in argv)
    return guest.start(f'exec timeout -s KILL {seconds} {words}')


def start_guest_server(guest, argv):  # noqa: F811
    server = in_guest(guest, argv)
    # As on this side: asleep for a while.
    time.sleep(1.5)
    assert server.status is None, server.report()
    return server


@pytest.mark.interop
@pytest.mark.parametrize('name', INTEROP)
@pytest.mark.parametrize('server', ['verbatim_serves', 'rxe_serves'])
def test_rxe(guest, server, name):  # noqa: F811
    server_argv, client_argv, said = PROGRAMS[name]
    if server == 'verbatim_serves':
        ends = [start_server(guest.host, server_argv)]
        ends.append(in_guest(guest, [*client_argv, guest.host.address]))
    else:
        ends = [start_guest_server(guest, server_argv)]
        ends.append(guest.host.start(*client_argv, guest.address))
    finish_both(ends, 40)
    for end in ends:
        assert said in end.output(), end.report()


@pytest.mark.interop
@pytest.mark.parametrize('server', ['verbatim_serves', 'rxe_serves'])
def test_rxe_ipv6(guest, server):  # noqa: F811
    (ours, _), (theirs, _) = guest.ends('ipv6')
    address = ours if server == 'verbatim_serves' else theirs
    serve = ['rping', '-s', '-v', '-C', '5', '-a', address]
    ask = ['rping', '-c', '-v', '-C', '5', '-a', address]
    if server == 'verbatim_serves':
        ends = [start_server(guest.host, serve), in_guest(guest, ask)]
    else:
        ends = [start_guest_server(guest, serve), guest.host.start(*ask)]
    finish_both(ends, 40)
    for end in ends:
        assert 'rdma-ping-4' in end.output(), end.report()


@pytest.mark.interop
def test_rxe_sees_death(guest):  # noqa: F811
    server = start_guest_server(guest, ['rping', '-s', '-v'])
    client = guest.host.start('rping', '-c', '-v', '-a', guest.address)
    client.wait_for('rdma-ping-5')
    with Capture(guest.host, complete=False) as capture:
        took = kill_one(guest.host, client, server, 'server DISCONNECT EVENT')
    assert 'DREQ' in read_mads(capture.path), f'{took:.0f} ms'
