# SPDX-License-Identifier: BSD-2-Clause
"""librdmacm: programs are told when the address that they use leaves them."""
import os
import signal

import pytest

from harness import SLOWER, wait_until
from netns import Cable
from test_cm import pair, start_server
from test_routers import send_elsewhere

SPARE, LOST = '10.79.0.1', '10.79.0.2'


def remove(host):
    host.command('ip', 'link', 'del', 'cm0', check=False)


@pytest.fixture
def spare(cables):
    """A host with an interface `cm0` that tests may change; its programs see it, too."""
    host = cables(1500).a
    host.ip('link', 'add', 'cm0', 'type', 'veth', 'peer', 'name', 'cm1')
    try:
        for address in (SPARE, LOST):
            host.ip('addr', 'add', f'{address}/24', 'dev', 'cm0')
        host.ip('link', 'set', 'cm1', 'up')
        host.ip('link', 'set', 'cm0', 'up')
        yield host
    finally:
        remove(host)


def serve(host, address):
    return start_server(host, ['rping', '-s', '-v', '-P', '-a', address],
                        env={'VERBATIM_DEVICES': 'cm0'})


@pytest.fixture
def ends(spare):
    """Both ends of a connection, in use, and bound to SPARE."""
    server = serve(spare, SPARE)
    client = spare.start('rping', '-c', '-v', '-a', SPARE, env={'VERBATIM_DEVICES': 'cm0'})
    client.wait_for('rdma-ping-5')
    yield client, server
    spare.release(client, server)


@pytest.mark.network
def test_address_goes(spare):
    """Who uses another address of the interface notices nothing."""
    stays, goes = serve(spare, SPARE), serve(spare, LOST)
    spare.ip('addr', 'del', f'{LOST}/24', 'dev', 'cm0')
    goes.wait_for('RDMA_CM_EVENT_ADDR_CHANGE')
    spare.ip('addr', 'add', f'{LOST}/24', 'dev', 'cm0')
    # Long enough for verbatimd to see that it is back, of which there is no sign.
    assert stays.wait(1 * SLOWER) is None
    assert 'ADDR_CHANGE' not in stays.output(), stays.report()
    assert goes.output().count('RDMA_CM_EVENT_ADDR_CHANGE') == 1, goes.report()
    # Once it is back it may go again.
    spare.ip('addr', 'del', f'{LOST}/24', 'dev', 'cm0')
    wait_until(lambda: goes.output().count('RDMA_CM_EVENT_ADDR_CHANGE') == 2, 5 * SLOWER, 'again')
    remove(spare)
    stays.wait_for('detected device removal')
    spare.release(stays, goes)


@pytest.mark.network
def test_address_moves(spare, ends):
    """To another interface of the host."""
    spare.ip('addr', 'del', f'{SPARE}/24', 'dev', 'cm0')
    spare.ip('addr', 'add', f'{SPARE}/24', 'dev', 'cm1')
    for end in ends:
        end.wait_for('RDMA_CM_EVENT_ADDR_CHANGE')


@pytest.mark.network
def test_device_goes(spare, ends):
    remove(spare)
    for end in ends:
        end.wait_for('detected device removal')


@pytest.fixture
def any_may_be_bound(cables):
    """Two hosts whose kernel lets sockets be bound to addresses that are not theirs, as keepalived wants."""
    names = [f'/proc/sys/net/{family}/ip_nonlocal_bind' for family in ('ipv4', 'ipv6')]
    cable = cables(1500)

    def set_all(value):
        for host in cable.hosts:
            for name in names:
                host.command('sh', '-c', f'echo {value} >{name}')
    set_all(1)
    yield cable
    set_all(0)


@pytest.mark.network
@pytest.mark.parametrize('number', [0, 1], ids=['ipv4', 'ipv6'])
def test_nonlocal_bind(any_may_be_bound, number):
    """What can be bound is no sign of an own address."""
    cable = any_may_be_bound
    address = cable.b.addresses[number]
    for output in pair(cable.b, ['rping', '-s', '-v', '-C', '5', '-a', address],
                       ['rping', '-c', '-v', '-C', '5', '-a', address], peer=cable.a):
        assert 'rdma-ping-4' in output, output
    refused = cable.a.start('rping', '-s', '-v', '-a', address)
    assert refused.wait(10 * SLOWER), refused.report()
    assert 'rdma_bind_addr' in refused.output(), refused.report()
    cable.a.release(refused)


@pytest.mark.network
def test_nonlocal_bind_and_address_goes(any_may_be_bound, spare):
    goes = serve(spare, LOST)
    spare.ip('addr', 'del', f'{LOST}/24', 'dev', 'cm0')
    goes.wait_for('RDMA_CM_EVENT_ADDR_CHANGE')
    spare.release(goes)
    again = spare.start('rping', '-s', '-v', '-a', LOST, env={'VERBATIM_DEVICES': 'cm0'})
    assert again.wait(10 * SLOWER), again.report()
    spare.release(again)


@pytest.mark.network
def test_source_that_rules_send_elsewhere():
    """An own address stays one where policy routing has another route for packets to it; and its listener is the next
    verbatimd's, too.
    """
    with Cable(1500, name='cmrule') as cable:
        host = cable.a
        send_elsewhere(host)
        for output in pair(cable.b, ['rping', '-s', '-v', '-C', '5'],
                           ['rping', '-c', '-v', '-C', '5', '-a', cable.b.address, '-I', host.address], peer=host):
            assert 'rdma-ping-4' in output, output
        server = start_server(host, ['rping', '-s', '-v', '-C', '5', '-a', host.address])
        (daemon,) = host.daemons()
        os.kill(daemon, signal.SIGKILL)
        client = cable.b.start('rping', '-c', '-v', '-C', '5', '-a', host.address)
        for end in (server, client):
            end.finish(20 * SLOWER)
