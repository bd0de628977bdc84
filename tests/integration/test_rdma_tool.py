# SPDX-License-Identifier: BSD-2-Clause
"""iproute2's rdma in `verbatim run`: it asks by NETLINK_RDMA, and is answered in the kernel's place."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import DEVICE, HOST, SLOWER, free_port, wait_until

pytestmark = pytest.mark.skipif(not shutil.which('rdma'), reason='there is no rdma of iproute2')

NOBODY = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')
LO = 1  # the number of the loopback interface
ALL_DEVICES = {'VERBATIM_DEVICES': ','.join(os.listdir('/sys/class/net'))}
MANY = 3000  # QPs; some 25 fit a datagram


def rdma(runner, *argv, **options):
    """What `rdma -j argv...` says, decoded."""
    return json.loads(runner.run('rdma', '-j', *argv, **options))


def lines(runner, *argv, **options):
    return runner.run('rdma', *argv, **options).splitlines()


def shown_qps(runner):
    """{number: (pid, QP)} of `verbatim show`."""
    return {qp['qpn']: (process['pid'], qp) for process in runner.show()['processes']
            for qp in process.get('qps', [])}


@contextlib.contextmanager
def pingpong(runner):
    """Two processes whose QPs are in RTS; {number of the QP: PSN of its sends}, as they say."""
    argv = ['stdbuf', '-oL', 'ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-n', 100_000_000, '-p', free_port()]
    ends = [runner.start_server(argv, argv[-1])]
    ends.append(runner.start(*argv, HOST))

    def are_connected():
        assert all(end.status is None for end in ends), [end.report() for end in ends]
        return [qp['state'] for _, qp in shown_qps(runner).values()] == ['RTS', 'RTS']
    try:
        wait_until(are_connected, 10 * SLOWER, 'both QPs in RTS')
        said = [re.search(r'local address:.*QPN 0x(\w+), PSN 0x(\w+)', end.output()) for end in ends]
        yield {int(match[1], 16): int(match[2], 16) for match in said}
    finally:
        runner.release(*ends)


def test_devices_and_links(runner):
    """As sysfs says, in text, with details, as JSON; filtered by rdma."""
    guid, state, physical = runner.run('cat', *(f'/sys/class/infiniband/{DEVICE}/{name}' for name in (
        'node_guid', 'ports/1/state', 'ports/1/phys_state'))).splitlines()
    assert (state, physical) == ('4: ACTIVE', '5: LinkUp')
    (device,) = rdma(runner, 'dev')
    assert device['ifindex'] == LO and device['ifname'] == DEVICE and device['node_type'] == 'ca'
    assert device['node_guid'] == device['sys_image_guid'] == guid
    for argument in ([], [f'{DEVICE}/1']):
        assert lines(runner, 'link', 'show', *argument) == [
            f'link {DEVICE}/1 state ACTIVE physical_state LINK_UP netdev lo ']
    (link,) = rdma(runner, '-d', 'link', 'show', f'{DEVICE}/1')
    assert link['netdev_index'] == LO and not {'caps', 'lid'} & set(link)
    assert runner.run('rdma', 'link', 'show', 'vrb_nothing/1', status=1) == 'Wrong device name\n'
    (link,) = rdma(runner, '-d', 'link', env={'VERBATIM_LINK_LAYER': 'infiniband'})
    assert link['lid'] == link['sm_lid'] > 0 and link['subnet_prefix'] == 'fe80:0000:0000:0000' and 'CM' in link['caps'], link
    (device,) = rdma(runner, 'dev', run=['--iwarp'])
    assert device['ifname'] == 'vrbw_lo' and device['node_type'] == 'rnic'


def test_several_devices(runner):
    env = ALL_DEVICES
    listed = [line.strip() for line in runner.run('ibv_devinfo', '-l', env=env).splitlines() if line.startswith('\t')]
    assert sorted(device['ifname'] for device in rdma(runner, 'dev', env=env)) == sorted(listed)
    assert [device['ifname'] for device in rdma(runner, 'res', env=env)] == listed
    for link in rdma(runner, 'link', env=env):
        with open(f'/sys/class/net/{link["netdev"]}/ifindex', encoding='ascii') as file:
            assert link['ifindex'] == int(file.read())
    assert rdma(runner, 'link', env={'VERBATIM_DEVICES': 'nonexistent'}) == []


def test_without_iproute2(runner, tmp_path):
    """The script says the same of links and devices."""
    for name in ('cat', 'dirname', 'sh', 'tr'):
        (tmp_path / name).symlink_to(shutil.which(name))
    env = {'PATH': tmp_path}
    for object_ in ('dev', 'link'):
        (by_script,), (device,) = rdma(runner, object_, env=env), rdma(runner, object_)
        # releases of iproute2 add to it
        assert by_script == {**by_script, **{name: device[name] for name in set(device) & set(by_script)}}
        assert len(set(device) & set(by_script)) >= 6
        said = runner.run('rdma', object_, env=env).split()
        assert said[:3] == runner.run('rdma', object_).split()[:3], said
    assert 'iproute2' in runner.run('rdma', 'res', env=env, status=127)


def test_qps_of_a_pingpong(fresh_runner):
    """As `verbatim show` and the programs themselves say."""
    runner = fresh_runner()
    with pingpong(runner) as psns:
        shown = shown_qps(runner)
        qps = rdma(runner, 'res', 'show', 'qp')
        assert {qp['lqpn'] for qp in qps} == set(shown) == set(psns)
        for qp in qps:
            pid, other = shown[qp['lqpn']]
            assert qp == {'ifindex': LO, 'ifname': DEVICE, 'port': 1, 'lqpn': other['qpn'], 'rqpn': other['dest_qpn'],
                          'type': 'RC', 'state': 'RTS', 'rq-psn': psns[other['dest_qpn']],
                          'sq-psn': psns[other['qpn']], 'path-mig-state': 'MIGRATED', 'pdn': other['pd'], 'pid': pid,
                          'comm': 'ibv_rc_pingpong'}
        (first, second) = sorted(qps, key=lambda qp: qp['lqpn'])
        text = lines(runner, 'res', 'show', 'qp')
        assert len(text) == 2 and all(line.startswith(f'link {DEVICE}/1 lqpn ') for line in text), text
        assert all('pdn' in line for line in lines(runner, '-d', 'res', 'show', 'qp'))

        def filtered(*words):
            return sorted(rdma(runner, 'res', 'show', 'qp', *words), key=lambda qp: qp['lqpn'])
        assert filtered('link', DEVICE) == filtered('link', f'{DEVICE}/1') == [first, second]
        assert filtered('lqpn', first['lqpn']) == [first]
        assert filtered('link', f'{DEVICE}/1', 'lqpn', second['lqpn']) == [second]
        assert len(lines(runner, 'res', 'show', 'qp', 'lqpn', first['lqpn'])) == 1
        assert filtered('lqpn', f'{first["lqpn"]},{second["lqpn"]}') == [first, second]
        assert filtered('pid', second['pid']) == [second]
        assert filtered('state', 'RTS', 'type', 'RC') == [first, second]
        assert filtered('state', 'INIT') == filtered('pid', 1) == []
        assert lines(runner, 'res', 'show', 'qp', 'lqpn', 1) == []
        assert rdma(runner, 'res') == [{'ifindex': LO, 'ifname': DEVICE, 'qp': 2, 'ctx': 2}]
        assert lines(runner, 'res', 'show', DEVICE) == [f'{LO}: {DEVICE}: qp 2 ctx 2 ']
    wait_until(lambda: rdma(runner, 'res', 'show', 'qp') == [], 10 * SLOWER, 'no QP')


QPS = r'''
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(*list);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	for (int i = 0; i < atoi(argv[1]); i++) {
		struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
						 .cap = { 1, 1, 1, 1 } };
		struct ibv_qp *qp = ibv_create_qp(pd, &init);

		if (!qp || (i % 2 && ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY)))
			return 1;
		printf("%u\n", qp->qp_num);
	}
	puts("all");
	fflush(stdout);
	pause();
}
'''


@pytest.fixture(scope='module')
def maker(tmp_path_factory):
    """A program that makes so many QPs, half of them in RESET, half in INIT, and waits."""
    program = tmp_path_factory.mktemp('maker') / 'maker'
    subprocess.run(['cc', '-o', program, '-x', 'c', '-', '-libverbs'], input=QPS, text=True, check=True)
    return program


# A program that polls before it receives, into a receive queue for one datagram; it asks for the QPs of device 1.
POLLING = '''
import select, socket, struct
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
sock.bind((0, 0))
sock.send(struct.pack('=IHHIIHHI', 24, 5 << 10 | 10, 0x301, 7, 0, 8, 1, 1))
count, kind = 0, None
while kind != 3:
    assert select.select([sock], [], [], 5)[0], count
    datagram, sender = sock.recvfrom(4096)
    assert sender == (0, 0)
    while datagram:
        size, kind, _, seq, _ = struct.unpack('=IHHII', datagram[:16])
        assert seq == 7 and 16 <= size <= len(datagram)
        count += kind != 3
        datagram = datagram[size:]
print(count)
'''


def test_thousands_of_qps(fresh_runner, maker):
    runner = fresh_runner()
    made = runner.start(maker, MANY)
    made.wait_for('all', 30)
    numbers = [int(word) for word in made.output().split()[:-1]]
    qps = rdma(runner, 'res', 'show', 'qp')
    assert len(numbers) == MANY and sorted(qp['lqpn'] for qp in qps) == sorted(numbers)
    for qp in qps:
        assert qp['pid'] == made.pid and qp['type'] == 'UD' and 'rqpn' not in qp
        assert (qp['state'], qp.get('port')) == (('INIT', 1) if numbers.index(qp['lqpn']) % 2 else ('RESET', None))
    assert len(lines(runner, 'res', 'show', 'qp', 'link', f'{DEVICE}/1')) == MANY // 2
    assert sum(line.startswith(f'link {DEVICE}/- ') for line in lines(runner, 'res', 'show', 'qp')) == MANY // 2
    for number in numbers[:2]:
        (qp,) = rdma(runner, 'res', 'show', 'qp', 'lqpn', number)
        assert qp['lqpn'] == number
    assert runner.run('/usr/bin/python3', '-c', POLLING) == f'{MANY}\n'
    (summary,) = rdma(runner, 'res')
    assert summary['qp'] == MANY and summary['ctx'] == 1


@pytest.mark.skipif(os.getuid() != 0, reason='only root becomes another user')
def test_an_ordinary_user(fresh_runner, maker):
    """It sees its own QPs, without any privilege, and not those of root."""
    if not shutil.which('setpriv'):
        pytest.skip('there is no setpriv')
    runner = fresh_runner(XDG_RUNTIME_DIR='')
    of_root = runner.start(maker, 2)
    of_root.wait_for('all')
    assert rdma(runner, 'res', 'show', 'qp', before=NOBODY) == []
    assert len(rdma(runner, 'res', 'show', 'qp')) == 2
    (link,) = rdma(runner, 'link', before=NOBODY)
    assert link['ifname'] == DEVICE
    argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', free_port()]
    own = runner.start_server(argv, argv[-1], before=NOBODY)
    (qp,) = rdma(runner, 'res', 'show', 'qp', before=NOBODY)
    assert qp['pid'] == own.pid and qp['state'] == 'INIT'


def test_listeners(fresh_runner):
    runner = fresh_runner()
    everywhere, here = free_port(), free_port()
    servers = [runner.start('rping', '-s', '-p', everywhere), runner.start('rping', '-s', '-a', HOST, '-p', here)]
    wait_until(lambda: all(runner.listens(server) for server in servers), 10 * SLOWER, 'both listen')
    ids = sorted(rdma(runner, 'res', 'show', 'cm_id'), key=lambda cm_id: 'port' in cm_id)
    common = {'ifindex': LO, 'ifname': DEVICE, 'state': 'LISTEN', 'ps': 'TCP', 'comm': 'rping'}
    assert ids == [{**common, 'pid': servers[0].pid, 'src-addr': f'0.0.0.0:{everywhere}'},
                   {**common, 'pid': servers[1].pid, 'src-addr': f'{HOST}:{here}', 'port': 1}]
    assert [f':{here} ' in line for line in lines(runner, 'res', 'show', 'cm_id', 'src-port', here)] == [True]
    assert rdma(runner, 'res', 'show', 'cm_id', run=['--iwarp']) == []


def test_verbatimd_stopped_and_killed(fresh_runner, maker):
    """rdma says so, and ends; it does not go on to the next device to wait there, too."""
    runner = fresh_runner()
    made = runner.start(maker, 1)
    made.wait_for('all')
    (daemon,) = runner.daemons()
    os.kill(daemon, signal.SIGSTOP)
    try:
        for argv in (['qp'], [], ['cm_id'], ['qp', 'lqpn', 1]):
            begun = time.monotonic()
            said = runner.run('rdma', 'res', *(['show', *argv] if argv else []), env=ALL_DEVICES, status=1)
            assert 'Connection timed out' in said or 'lqpn' in argv, said  # rdma says nothing of the latter
            assert time.monotonic() - begun < 5 * SLOWER
        assert len(lines(runner, 'link')) == 1  # verbatimd is not asked
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert len(lines(runner, 'res', 'show', 'qp')) == 1
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: len(lines(runner, 'res', 'show', 'qp')) == 1, 10 * SLOWER, 'the next verbatimd knows the QP')


@pytest.mark.parametrize('argv', [['res', 'show', 'mr'], ['res', 'show', 'cq'], ['statistic'], ['system'],
                                  ['link', 'add', 'rxe9', 'type', 'rxe', 'netdev', 'lo']], ids=lambda argv: argv[-1])
def test_what_is_not_answered(runner, argv):
    assert 'Operation not supported' in runner.run('rdma', *argv, status=1)


def test_other_netlink_is_undisturbed(runner):
    """ip asks by NETLINK_ROUTE, and gets what it gets without the library."""
    def ask(*run):
        return [{**link, 'stats64': None} for link in json.loads(runner.run('ip', '-j', 'link', run=run))]
    assert ask() == ask('--no-sysfs') and ask()


def test_the_kernel_is_asked_without_the_view(runner):
    program = runner.start('rdma', 'link', run=['--no-sysfs'])
    assert program.wait(10 * SLOWER) is not None and DEVICE not in program.output(), program.report()
