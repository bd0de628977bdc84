# SPDX-License-Identifier: BSD-2-Clause
"""Between two hosts: groups, addresses that go, a port that is taken."""
import re
import sys

import pytest

from harness import VERIFY, free_port, wait_until
import netns

pytestmark = pytest.mark.network

TAKER = '''
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 4791))
print("taken", flush=True)
time.sleep(60)
'''


@pytest.fixture
def cable():
    """One of its own: addresses are changed."""
    try:
        made = netns.Cable(1500, name='reach', linger_ms=200)
    except netns.Unavailable as reason:
        pytest.skip(str(reason))
    with made:
        yield made


def udp_ports(host):
    """The local addresses on which UDP port 4791 is open."""
    return set(re.findall(r'^\S+\s+\d+\s+\d+\s+(\S+):4791\s', host.command('ss', '-Huna'),
                          re.MULTILINE))


@pytest.mark.asan
@pytest.mark.parametrize('group', ['::ffff:239.78.1.2', 'ff15::78:1', 'ff0e::4e:2'])
def test_group(cables, group):
    """A group's address decides whether IPv4 or IPv6 is spoken."""
    both, port = cables(1500), free_port()
    index = 0 if group.startswith('::ffff') else 1
    argv = [VERIFY, 'group', '--service', 'ud', '--group', group, '--port', port, '--listen', '::',
            '--sizes', '1,100,1000', '--count', 12, '--gid-index', index]
    for output in both.b.pair(argv, [*argv, both.b.address], port, peer=both.a):
        assert 'verified 12 datagrams' in output


def test_no_port_before_it_is_needed(cable):
    """Neither a device that is open nor one that is asked opens a port."""
    assert 'PORT_ACTIVE' in cable.a.run('ibv_devinfo', '-v')
    watching = cable.a.start(VERIFY, 'address', stdin=-1)
    watching.wait_for('end')
    assert udp_ports(cable.a) == set()


def test_port_on_the_address_only(cable):
    port = free_port()
    argv = [VERIFY, 'stream', '--port', port, '--op', 'send', '--sizes', 100, '--listen', '::']
    cable.b.start_server(argv, port)
    cable.a.start(*argv, cable.b.address).wait_for('running')
    for host in cable.hosts:
        assert udp_ports(host) == {host.address}, host.command('ss', '-Huna')


def connect_late(cable, gid_index, between):
    """A pair whose server has its GID when `between` is called, and connects afterwards. Returns the
    output of both ends, once they have failed or ended.
    """
    port = free_port()
    argv = [VERIFY, 'data', '--port', port, '--sizes', 100, '--listen', '::', '--gid-index',
            gid_index]
    server = cable.b.start_server(argv, port, env={'VERBATIM_EXPLAIN': 1})
    between()
    client = cable.a.start(*argv, cable.b.address, env={'VERBATIM_EXPLAIN': 1})
    wait_until(lambda: server.status is not None, 30, 'the server ends')
    client.wait(10)
    return server, client


def test_address_that_is_gone(cable):
    """A GID that its host lost fails when it is used, and says so."""
    index = cable.b.gid_index(cable.b.addresses[1])
    server, _ = connect_late(cable, index, lambda: cable.b.ip(
        'addr', 'del', f'{cable.b.addresses[1]}/64', 'dev', cable.b.interface))
    assert server.status == 1, server.report()
    output = server.output()
    assert re.search(r'ibv_(modify_qp|query_gid)', output), output
    assert cable.b.addresses[1] in output, f'the cause does not name the address\n{output}'


@pytest.mark.parametrize('bound', ['the address', 'any address'])
def test_port_is_taken(cable, bound):
    """The error names who has it."""
    address = cable.b.address if bound == 'the address' else '0.0.0.0'
    taker = cable.b.start_plain(sys.executable, '-c', TAKER, address)
    taker.wait_for('taken')
    server, _ = connect_late(cable, 0, lambda: None)
    assert server.status == 1, server.report()
    output = server.output()
    assert '4791' in output, output
    assert str(taker.pid) in output or 'python' in output, f'who has the port is not said\n{output}'


def test_address_that_goes_in_the_middle(cable):
    """Of a connection: what is under way fails when its retries are over, and the cause is told."""
    port = free_port()
    argv = [VERIFY, 'stream', '--port', port, '--op', 'write', '--sizes', 100, '--listen', '::']
    cable.b.start_server(argv, port)
    client = cable.a.start(*argv, cable.b.address, env={'VERBATIM_EXPLAIN': 1})
    client.wait_for('running')
    cable.a.ip('addr', 'del', f'{cable.a.address}/24', 'dev', cable.a.interface)
    client.wait_for('dead', 30)
    dead = re.search(r'dead .* status=(\d+)', client.output())
    assert dead[1] == '12', client.report()  # IBV_WC_RETRY_EXC_ERR
    assert 'cannot be reached' in client.output(), client.report()


def test_peer_that_cannot_be_reached(cable):
    """No route: the request fails when its retries are over, and the cause says more than that."""
    port = free_port()
    argv = [VERIFY, 'stream', '--port', port, '--op', 'write', '--sizes', 100, '--listen', '::']
    cable.b.start_server(argv, port)
    client = cable.a.start(*argv, cable.b.address, env={'VERBATIM_EXPLAIN': 1})
    client.wait_for('running')
    cable.b.ip('link', 'set', cable.b.interface, 'down')
    client.wait_for('dead', 30)
    dead = re.search(r'dead .* status=(\d+) vendor_err=(\d+)', client.output())
    assert dead[1] == '12', client.report()  # IBV_WC_RETRY_EXC_ERR
    assert dead[2] != '0', client.report()
