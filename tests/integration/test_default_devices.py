# SPDX-License-Identifier: BSD-2-Clause
"""Which devices there are when nothing is set, and that all addresses of a host work over them.

Two hosts with a cable between them; each has loopback and, like any host with Docker, a bridge of
containers, with the same address on both.
"""
import re
import shutil

import pytest

import netns
from harness import free_port
from test_cm import pair

BRIDGE = 'docker0'
BRIDGE_ADDRESS = '172.31.0.1'
DEVICE = f'vrb_{netns.INTERFACE}'
OWN = ['127.0.0.1', '127.0.0.9', '::1', '10.78.0.1', 'fd78::1', f'fe80::1%{netns.INTERFACE}',
       BRIDGE_ADDRESS]

pytestmark = pytest.mark.network


@pytest.fixture(scope='module')
def hosts():
    try:
        cable = netns.Cable(1500, name='default')
    except netns.Unavailable as reason:
        pytest.skip(str(reason))
    with cable:
        for host in cable.hosts:
            del host.env['VERBATIM_DEVICES'], host.env['VERIFY_DEVICE']
            host.ip('link', 'add', BRIDGE, 'type', 'bridge')
            # one of its own would go again as the bridge finds that it has no carrier
            host.ip('link', 'set', BRIDGE, 'addrgenmode', 'none')
            host.ip('addr', 'add', f'{BRIDGE_ADDRESS}/16', 'dev', BRIDGE)
            host.ip('link', 'set', BRIDGE, 'up')
        yield cable.hosts
        for host in cable.hosts:
            host.release(*list(host.programs))


def devices(host, **env):
    return re.findall(r'^\t(\S+)$', host.run('ibv_devinfo', '-l', env=env), re.MULTILINE)


def needs(program, package):
    if not shutil.which(program):
        pytest.skip(f'{program} is not installed ({package})')


def test_default_list(hosts):
    """What a user would plug a cable into; all else by name, and where there is nothing else."""
    host = hosts[0]
    assert devices(host) == [DEVICE]
    assert host.run('ls', '/sys/class/infiniband').split() == [DEVICE]
    for names in (['lo'], [BRIDGE], ['lo', BRIDGE, netns.INTERFACE]):
        assert devices(host, VERBATIM_DEVICES=','.join(names)) == [f'vrb_{n}' for n in names]
    for interface in (netns.INTERFACE, BRIDGE):
        host.ip('link', 'set', interface, 'down')
    try:
        assert devices(host) == ['vrb_lo']
    finally:
        for interface in (BRIDGE, netns.INTERFACE):
            host.ip('link', 'set', interface, 'up')
        for address in host.addresses[1:]:  # gone with the link
            host.ip('addr', 'replace', f'{address}/64', 'dev', netns.INTERFACE, 'nodad')


@pytest.mark.parametrize('address', OWN)
@pytest.mark.parametrize('listens', ['anywhere', 'there'])
def test_rping_to_every_own_address(hosts, address, listens):
    host = hosts[0]
    number = free_port()
    server = ['rping', '-s', '-p', number, '-C', 3]
    if listens == 'there':
        server += ['-a', address]
    elif ':' in address:
        server += ['-a', '::']
    _, client = pair(host, server, ['rping', '-c', '-v', '-a', address, '-p', number, '-C', 3])
    assert client.count('ping data') == 3, client


@pytest.mark.parametrize('address', OWN)
def test_datagrams_by_rdma_cm_to_every_own_address(hosts, address):
    host = hosts[0]
    family = ['-b', '::'] if ':' in address else []
    _, client = pair(host, ['udaddy', *family], ['udaddy', '-s', address])
    assert 'data transfers complete' in client and 'test complete' in client, client


@pytest.mark.parametrize('gid', ['::ffff:127.0.0.1', '::1', f'::ffff:{BRIDGE_ADDRESS}'])
def test_verbs_of_different_devices_meet_in_shared_memory(hosts, gid):
    """One end on the device of loopback or of the bridge, the other on the cable's."""
    host = hosts[0]
    number = free_port()
    device = BRIDGE if BRIDGE_ADDRESS in gid else 'lo'
    index = 1 if gid == '::1' else 0
    common = ['ibv_rc_pingpong', '-p', number, '-n', 5000]
    server = host.start_server([*common, '-d', f'vrb_{device}', '-g', index], number,
                               env={'VERBATIM_DEVICES': device})
    client = host.start(*common, '-d', DEVICE, '-g', 0, '127.0.0.1')
    assert 'iters' in server.finish() and 'iters' in client.finish()
    ports = [port for process in host.show()['processes'] for port in process.get('ports', [])]
    assert not ports, ports


def test_loopback_of_another_host_is_told(hosts):
    """The server's GID is 127.0.0.1, which is somebody else at the client."""
    number = free_port()
    common = ['ibv_rc_pingpong', '-p', number, '-g', 0, '-n', 10]
    server = hosts[1].start_server(common, number, env={'VERBATIM_DEVICES': 'lo'})
    client = hosts[0].start(*common, hosts[1].address, env={'VERBATIM_EXPLAIN': 1})
    said = client.finish(seconds=30, status=1)
    assert '127.0.0.1 is this host itself' in said and 'VERBATIM_DEVICES' in said, said
    hosts[1].release(server)


def fabric(server, client, address, *options):
    """fi_pingpong between two runners; what the client says."""
    needs('fi_pingpong', 'libfabric-bin')
    number = free_port()
    env = {'VERBATIM_EXPLAIN': 1}
    if 'verbs;ofi_rxm' in options:
        env['FI_OFI_RXM_CM_PROGRESS_INTERVAL'] = 300000
    passive = server.start_server(['fi_pingpong', '-I', 20, '-B', number, *options], number, env=env)
    active = client.start('fi_pingpong', '-I', 20, '-P', number, *options, address, env=env)
    said = active.finish(seconds=60)
    both = said + passive.finish(seconds=20)
    assert 'verbatim[' not in both, both
    return said


# ofi_rxm of libfabric 1.17 finds its CQ empty, then takes the event that the peer has disconnected, and flushes the message
# "fin" that came in between, if it was without a processor there. With nothing beside it, and as it looks for such events
# each 300 ms and not each 10, it is not.
RXM_ALONE = pytest.mark.alone
FABRIC = {'msg': ['-p', 'verbs', '-e', 'msg'], 'rxm': ['-p', 'verbs;ofi_rxm', '-e', 'rdm'],
          'dgram': ['-p', 'verbs', '-e', 'dgram']}


def test_fabric_has_msg_endpoints(hosts):
    needs('fi_info', 'libfabric-bin')
    output = hosts[0].run('fi_info', '-p', 'verbs')
    assert 'type: FI_EP_MSG' in output and f'domain: {DEVICE}\n' in output, output
    assert 'vrb_lo' not in output and BRIDGE not in output, output


@pytest.mark.parametrize('kind', [pytest.param('rxm', marks=RXM_ALONE) if kind == 'rxm' else kind for kind in FABRIC])
@pytest.mark.parametrize('address', ['127.0.0.1', '10.78.0.1', BRIDGE_ADDRESS, 'other host'])
def test_fabric_pingpong(hosts, kind, address):
    server = hosts[1] if address == 'other host' else hosts[0]
    if address == 'other host':
        address = hosts[1].address
    output = fabric(server, hosts[0], address, *FABRIC[kind])
    assert re.search(r'^1[mk]\s+20\s', output, re.MULTILINE), output




def ucx(server, client, address, transports, test, size, count):
    needs('ucx_perftest', 'ucx-utils')
    number = free_port()
    env = {'UCX_TLS': transports}
    argv = ['ucx_perftest', '-p', number]
    passive = server.start_server(argv, number, env=env)
    active = client.start(*argv, address, '-t', test, '-s', size, '-n', count, env=env)
    output = active.finish(seconds=60)
    passive.finish(seconds=20)
    assert re.search(rf'^Final:\s+{count}\s', output, re.MULTILINE), output
    return output


TRANSPORTS = [None, 'rc_v', 'ud_v', 'rc_v,ud_v']


@pytest.mark.parametrize('transports', TRANSPORTS)
@pytest.mark.parametrize('place', ['one host', 'two hosts'])
def test_ucx(hosts, transports, place):
    """From 32 KiB on UCX uses all devices that there are: between hosts none may be loopback."""
    server = hosts[1] if place == 'two hosts' else hosts[0]
    for test, size in (('tag_lat', 8), ('tag_bw', 1 << 20), ('ucp_get', 32768), ('ucp_fadd', 8)):
        ucx(server, hosts[0], server.address, transports, test, size, 10)


@pytest.mark.long
@pytest.mark.parametrize('transports', TRANSPORTS)
@pytest.mark.parametrize('place', ['one host', 'two hosts'])
def test_ucx_of_all_sizes(hosts, transports, place):
    server = hosts[1] if place == 'two hosts' else hosts[0]
    for test in ('tag_lat', 'tag_bw', 'ucp_am_lat', 'ucp_put_bw', 'ucp_get'):
        for size in (1, 64, 4096, 32768, 1 << 20, 8 << 20):
            ucx(server, hosts[0], server.address, transports, test, size, 10)
    for test in ('ucp_add', 'ucp_fadd', 'ucp_swap', 'ucp_cswap'):
        for size in (4, 8):
            ucx(server, hosts[0], server.address, transports, test, size, 20)


QUIET = {'rc': (['ibv_rc_pingpong', '-g', 0], ['-p']), 'srq': (['ibv_srq_pingpong', '-g', 0], ['-p']),
         'ud': (['ibv_ud_pingpong', '-g', 0], ['-p']), 'send_bw': (['ib_send_bw', '-n', 200], ['-p']),
         'send_bw_srq': (['ib_send_bw', '--use-srq', '-q', 4, '-n', 200], ['-p']),
         'write_events': (['ib_write_bw', '-n', 200], ['-p']),
         'fabric_msg': (['fi_pingpong', '-I', 20, *FABRIC['msg']], ['-B', '-P'])}


@pytest.mark.parametrize('place', ['one host', 'two hosts'])
# ibv_srq_pingpong leaves while the other end still sends: that fails 50 ms later, if the other one is not gone by then
@pytest.mark.parametrize('program', [pytest.param(name, marks=pytest.mark.alone) if name == 'srq' else name for name in QUIET])
def test_a_normal_end_says_nothing(hosts, place, program):
    argv, options = QUIET[program]
    needs(argv[0], 'packages.txt')
    server = hosts[1] if place == 'two hosts' else hosts[0]
    number = free_port()
    ends = server.pair([*argv, options[0], number], [*argv, options[-1], number, server.address],
                       number, peer=hosts[0], env={'VERBATIM_EXPLAIN': '1'})
    for said in ends:
        assert 'verbatim[' not in said, said


@pytest.mark.parametrize('place', ['one host', 'two hosts'])
@pytest.mark.parametrize('program', ['rping', 'ucx_perftest'])
def test_a_normal_end_of_connections_says_nothing(hosts, place, program):
    server = hosts[1] if place == 'two hosts' else hosts[0]
    number = free_port()
    env = {'VERBATIM_EXPLAIN': '1', 'UCX_TLS': 'rc_v,ud_v'}
    if program == 'rping':
        ends = pair(server, ['rping', '-s', '-C', 3, '-p', number],
                    ['rping', '-c', '-C', 3, '-p', number, '-a', server.address], hosts[0], env=env)
    else:
        needs('ucx_perftest', 'ucx-utils')
        argv = ['ucx_perftest', '-p', number]
        ends = server.pair(argv, [*argv, server.address, '-t', 'tag_bw', '-s', 100000, '-n', 50],
                           number, peer=hosts[0], env=env)
    for said in ends:
        assert 'verbatim[' not in said, said


def test_no_device_is_told(hosts):
    said = hosts[0].start('rping', '-c', '-a', hosts[0].address, '-p', free_port(),
                          env={'VERBATIM_EXPLAIN': '1', 'VERBATIM_DEVICES': 'nonexistent'}
                          ).finish(status=255)
    assert 'rdma_resolve_addr: 10.78.0.1: No such device' in said, said
    assert 'No RDMA device has the address' in said and 'VERBATIM_DEVICES' in said, said
