# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary user on the kernels of Debian 11, 12 and 13, with Yama: contract, programs, and their speed beside root's.

Each kernel has its guest (kernel_guest.py), in which this machine's programs run over this build.
"""
import re

import pytest

import kernel_guest
from guest import Unavailable
from harness import BUILD, VERIFY

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(900)]

CONTRACT = ('data', 'status', 'memory', 'revoke', 'undisturbed', 'fork')
BENCH = BUILD / 'tests/bench'
DEVICE = 'vrb_lo'
# pair SECONDS PORT PROGRAM...: both ends, the client with a last word more; prints what the client says, then the
# server after the line SERVER. As $user says, and in the network namespaces $a and $b.
PAIR = f'''
mkdir -p -m 777 /tmp/work; cd /tmp/work
export PATH=/mnt/verbatim/usr/local/bin:$PATH
user="{kernel_guest.NOBODY}"
host=127.0.0.1
run="verbatim run --"
pair() {{
	local seconds=$1 port=$2 status=0 i words; shift 2
	printf -v words ':%04X [0-9A-F]*:0000 0A' $port
	$a timeout -k 1 $seconds $user $run "$@" >/tmp/server 2>&1 & local server=$!
	for ((i = 0; i < 200; i++)); do $a cat /proc/net/tcp /proc/net/tcp6 | grep -q "$words" && break; sleep 0.1; done
	$b timeout -k 1 $seconds $user $run "$@" $client_only $host 2>&1 || status=$?
	wait $server || status=$?
	echo SERVER; cat /tmp/server; rm -f /tmp/server
	return $status
}}
'''


class Kernel:
    """A guest, and what is run in it."""

    def __init__(self, guest):
        self.guest = guest
        # in emulation a system call takes ten times as long
        self.slower = 1 if guest.machine == 'KVM' else 8

    def run(self, script, seconds=60, status=0):
        return self.guest.run(PAIR + script, seconds * (1 if self.slower == 1 else 3), status)

    def pair(self, port, program, *, before='', seconds=60):
        """What both ends say."""
        output = self.run(f'{before}\npair {seconds * (1 if self.slower == 1 else 2)} {port} {program}', seconds)
        client, _, server = output.partition('SERVER\n')
        return client, server

    def set_yama(self, scope):
        self.guest.run(f'echo {scope} >/proc/sys/kernel/yama/ptrace_scope')


@pytest.fixture(scope='module', params=list(kernel_guest.KERNELS), ids=lambda name: kernel_guest.KERNELS[name])
def kernel(request):
    try:
        guest = kernel_guest.Guest(request.param)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with guest:
        assert guest.kernel.startswith(kernel_guest.KERNELS[request.param]), guest.kernel
        print(f'{guest.kernel} by {guest.machine}')
        guest.install(VERIFY, *(BUILD / f'tests/contract/test_contract_{name}' for name in CONTRACT))
        guest.run('mount -t tmpfs -o mode=1777 vartmp /var/tmp')
        made = Kernel(guest)
        made.set_yama(1)
        yield made


def test_regions_migrate(kernel):
    """And nothing is told but that pages are private again after a fork."""
    client, server = kernel.pair(7001, '/mnt/verify migrate --port 7001 --count 500',
                                 before='export VERBATIM_EXPLAIN=1')
    assert 'migrated at registration' in server and 'nothing lost' in server, server
    assert 'wrote 500 rounds' in client, client
    assert (client + server).count('kernel.yama.ptrace_scope is 1') == 1, client + server


@pytest.mark.parametrize('name', CONTRACT)
def test_contract(kernel, name):
    output = kernel.run(f'VERBATIM_TEST_PATIENCE={2 * kernel.slower} $user $run /mnt/test_contract_{name} 2>&1',
                        seconds=150)
    assert 'FAILED' not in output and 'PASSED' in output, output


@pytest.mark.parametrize('service', ['rc', 'rc -e', 'uc', 'ud', 'srq'])
def test_pingpong(kernel, service):
    name, _, options = service.partition(' ')
    client, _ = kernel.pair(18515, f'ibv_{name}_pingpong -g 0 -n 500 {options}')
    assert re.search(r'500 iters in', client), client


@pytest.mark.parametrize('program', [
    'ib_atomic_lat -n 300', 'ib_send_lat -s 8 -n 300 -e', 'ib_read_bw -s 65536 -n 300', 'ib_send_bw -s 65536 -n 300',
    'ib_write_bw -s 1048576 -n 50 -q 4', 'ib_send_bw -c UD -s 1024 -n 500'])
def test_perftest(kernel, program):
    client, _ = kernel.pair(7002, f'{program} -d {DEVICE} -F -p 7002')
    assert re.search(r'^ \d+ +\d+ +[\d.]+', client, re.MULTILINE), client


def test_rping(kernel):
    output = kernel.run(f'''
        {kernel_guest.NOBODY} $run rping -s -a 127.0.0.1 -p 7003 -C 20 -v >/tmp/work/server 2>&1 & sleep {kernel.slower}
        $user $run rping -c -a 127.0.0.1 -p 7003 -C 20 -v 2>&1 && wait; status=$?
        cat /tmp/work/server; exit $status''')
    assert output.count('ping data: rdma-ping-19') == 2, output


@pytest.mark.parametrize('test', ['tag_lat -s 8 -n 300', 'tag_bw -s 100000 -n 100', 'ucp_get -s 4096 -n 100'])
def test_ucx(kernel, test):
    client, _ = kernel.pair(7004, 'ucx_perftest -p 7004', before=(
        f'export UCX_NET_DEVICES={DEVICE}:1 UCX_TLS=ib client_only="-t {test}"'))
    assert re.search(r'^Final:', client, re.MULTILINE), client


def test_between_hosts(kernel):
    """Two network namespaces: bursts are cut and merged by this kernel."""
    network = '''
        if [ ! -e /run/netns/a ]; then
            ip netns add a; ip netns add b
            ip -n a link add veth0 type veth peer name veth0 netns b
            for n in a b; do ip -n $n link set lo up; ip -n $n link set veth0 up; done
            ip -n a addr add 10.78.0.1/24 dev veth0; ip -n b addr add 10.78.0.2/24 dev veth0
        fi
        a="ip netns exec a" b="ip netns exec b" host=10.78.0.1'''
    for program, said in (('ibv_rc_pingpong -g 0 -n 200 -p 7005', '200 iters'),
                          ('ibv_ud_pingpong -g 0 -n 200 -p 7005', '200 iters'),
                          ('ib_write_bw -d vrb_veth0 -F -s 65536 -n 100 -p 7005', ' 65536 '),
                          ('ib_send_bw -d vrb_veth0 -F -s 65536 -n 100 -p 7005', ' 65536 '),
                          ('/mnt/verify data --op write --port 7005 --count 20 --listen 10.78.0.1', '')):
        client, _ = kernel.pair(7005, program, before=network)
        assert said in client, client


def tenth(text):
    """Of an ib_*_lat's list: a tenth of the messages was quicker, in us. Others on the processor spoil the median."""
    times = sorted(float(time) for time in re.findall(r'^\d+, ([\d.]+)', text, re.MULTILINE))
    assert times, text
    return times[len(times) // 10]


def rate(text):
    """Of an ib_*_bw: the inverse of its messages a second."""
    figures = re.search(r'^ \d+\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)', text, re.MULTILINE)
    assert figures, text
    return 1 / float(figures[1])


@pytest.mark.parametrize('program, cost', [
    ('ib_write_lat -s 8 -n 1000 -H', tenth), ('ib_send_lat -s 8 -n 1000 -H', tenth),
    ('ib_read_lat -s 8 -n 1000 -H', tenth), ('ib_atomic_lat -n 1000 -H', tenth),
    ('ib_write_bw -s 8 -n 5000', rate), ('ib_write_bw -s 65536 -n 500', rate),
], ids=lambda value: '_'.join(value.split()[:3]) if isinstance(value, str) else '')
def test_user_is_as_quick_as_root(kernel, program, cost):
    best = {}
    for _ in range(5):  # what else this machine does, and where the guest's threads run, makes a difference
        for user, before in (('root', 'user='), ('nobody', '')):
            client, _ = kernel.pair(7006, f'{program} -d {DEVICE} -F -p 7006', before=before)
            best[user] = min(cost(client), best.get(user, 1e9))
        ratio = best['nobody'] / best['root']
        if ratio <= 1.3:
            break
    print(f'{program}: root {best["root"]:.3g}, nobody {best["nobody"]:.3g}')
    assert ratio <= 1.3, best


def latency(kernel, operation, target):
    """A tenth of the requests was quicker: in emulation the guest's processors have to run at the same time."""
    client, server = kernel.pair(7007, (
        f'/mnt/verify latency --op {operation} --target {target} --sizes 8 --count 1000 --port 7007 --sleeper'),
        before='export VERBATIM_EXPLAIN=1')
    return int(re.search(r'10 % (\d+) ns', client)[1]), client + server


@pytest.mark.parametrize('scope', [0, 1])
@pytest.mark.parametrize('target', ['polls', 'spins', 'sleeps'])
def test_program_with_a_thread_that_sleeps(kernel, target, scope):
    """Its regions do not migrate, and that is told; a request waits for no time slice, and for no poll lease."""
    kernel.set_yama(scope)
    try:
        for operation in ('write', 'read', 'faa'):
            took, told = latency(kernel, operation, target)
            print(f'{operation} to a target that {target}: {took} ns')
            assert took < 30000 * kernel.slower, told
            assert ('kernel.yama.ptrace_scope is 1' in told) == bool(scope), told
    finally:
        kernel.set_yama(1)
