# SPDX-License-Identifier: BSD-2-Clause
"""In containers, made here of what they are made of: namespaces, a read-only root, no capabilities, an ordinary
user, 64 KiB of locked memory, a filter of system calls as Docker's. Programs find each other in one container, in two
of one pod (a network in common, but neither files nor processes), and in two that a cable joins, which may share a
directory.
"""
import os
import signal
import subprocess
import typing

import pytest

import harness
import netns
from harness import free_port, wait_until
from test_cm import rping_may_hang
from test_daemon import as_nobody

pytestmark = pytest.mark.network

KI = 1 << 10
FILTERED = harness.BUILD / 'tests/integration/filtered/filtered'
# What Docker leaves root with.
DOCKERS = ('chown', 'dac_override', 'fowner', 'fsetid', 'kill', 'setgid', 'setuid', 'setpcap', 'net_bind_service',
           'net_raw', 'sys_chroot', 'mknod', 'audit_write', 'setfcap')


class Kind(typing.NamedTuple):
    """What a container has. The defaults: as strict as a cluster's policies ask for."""
    filter: str = 'docker'
    root: bool = False     # with the capabilities of DOCKERS
    memory: str = '64m'    # /tmp; without one it is read-only, too
    proc: str = 'mount -t proc proc /proc'


KINDS = {
    'usual': Kind(),
    'root': Kind(root=True),
    'strict_filter': Kind(filter='strict'),
    'nowhere_to_write': Kind(memory=''),
    'hidden_processes': Kind(proc='mount -t proc -o hidepid=2 proc /proc'),
    'no_proc': Kind(proc='mount -t tmpfs -o ro none /proc'),
}
SHARED = '/mnt'  # where containers have the directory that they share
MOUNTS = '''
    {proc}
    {shared}
    mount -t sysfs -o ro sysfs /sys
    mount -t tmpfs -o ro,noexec none /run
    mount -t tmpfs -o noexec,mode=1777,size=64k none /dev/shm
    mount -t tmpfs -o noexec,mode=1777,{memory} none /tmp
    mount -o remount,bind,ro /
    echo
    cat >/dev/null
'''


class Container(harness.Runner):
    """Mounts, processes, IPC and a host name of its own, in the network of `host`. What is started in it has its
    limits; it is told of no device, and finds those that are there. `shared`: a directory that it shares with others.
    """

    def __init__(self, host, kind, shared=None):
        # Those that share it have the same variables; in their networks they are alone all the same.
        namespace = f'{host.namespace[:-1]}shared' if shared else host.namespace
        super().__init__(namespace, linger_ms=300, VERBATIM_EXPLAIN='1')
        del self.env['VERBATIM_DEVICES']
        if shared:
            self.env['VERBATIM_SOCKET_DIR'] = SHARED
        self.address = host.address
        self.anchor = host.anchor
        if kind.root:
            identity = ['setpriv', f'--bounding-set=-all,+{",+".join(DOCKERS)}', '--inh-caps=-all']
        else:
            identity = [*as_nobody(), '--bounding-set=-all', '--inh-caps=-all']
        mounts = MOUNTS.format(proc=kind.proc, memory=f'size={kind.memory}' if kind.memory else 'ro',
                               shared=f'mount --bind {shared} {SHARED}' if shared else '')
        self._holder = netns.hold(
            *host.prefix, 'unshare', '--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child',
            '--propagation=private', program=('sh', '-ec', mounts))
        inside = f'/proc/{self._holder.pid}/ns'
        self.prefix = (
            *host.prefix[:-1], f'--ipc={inside}/ipc', f'--uts={inside}/uts', f'--mount={inside}/mnt',
            f'--pid={inside}/pid_for_children', '--', 'prlimit', f'--memlock={64 * KI}:{64 * KI}', *identity,
            FILTERED, kind.filter)

    def close(self):
        left = super().close()
        netns.release(self._holder)
        return left


@pytest.fixture(scope='module')
def cable():
    if os.geteuid() != 0:
        pytest.skip('only root makes these containers')
    with netns.Cable(1500, name='containers') as made:
        yield made


@pytest.fixture
def contain(cable):
    """contain(host of the cable, kind, shared) makes a container."""
    made = []

    def make(host, kind=KINDS['usual'], shared=None):
        made.append(Container(host, kind, shared))
        return made[-1]
    yield make
    harness.close_all(made)


def pingpong(server, client):
    port = free_port()
    argv = ['ibv_rc_pingpong', '-g', 0, '-c', '-n', 100, '-p', port]
    for output in server.pair(argv, [*argv, server.address], port, peer=client):
        assert '100 iters in' in output and 'invalid data' not in output, output


def rping(server, client):
    if rping_may_hang():
        pytest.skip('this rping hangs now and then, over an adapter too')
    port = free_port()
    argv = ['rping', '-v', '-V', '-C', 5, '-p', port, '-a', server.address]
    serving = server.start(*argv, '-s')
    wait_until(lambda: any(listener['port'] == port for listener in server.show()['listeners']), 10 * harness.SLOWER,
               'rping listens')
    calling = client.start(*argv, '-c')
    harness.finish_both((serving, calling), 20)
    for end in (serving, calling):
        assert 'rdma-ping-4' in end.output(), end.output()


def write(server, client):
    port = free_port()
    argv = ['ib_write_bw', '-F', '-x', 0, '-s', 256 * KI, '-n', 200, '-p', port]
    _, output = server.pair(argv, [*argv, server.address], port, peer=client)
    assert ' 262144     200 ' in output, output


PROGRAMS = pytest.mark.parametrize('program', [pingpong, rping, write], ids=lambda value: value.__name__)


# A program of each kind of call in the usual one, and one or two in each of the others; the rest in the long run.
@pytest.mark.parametrize('kind, program', [
    *(pytest.param('usual', program, id=f'{program.__name__}-usual') for program in (pingpong, rping, write)),
    *(pytest.param(kind, program, id=f'{program.__name__}-{kind}',
                   marks=[] if program == rping or (program, kind) == (write, 'strict_filter') else pytest.mark.long)
      for kind in KINDS if kind != 'usual' for program in (pingpong, rping, write))])
def test_in_one_container(cable, contain, kind, program):
    container = contain(cable.a, KINDS[kind])
    program(container, container)


@PROGRAMS
def test_two_of_one_pod(cable, contain, program):
    """No file is common to them: they meet at the daemon's abstract name."""
    program(contain(cable.a), contain(cable.a))


@PROGRAMS
def test_two_with_networks_of_their_own(cable, contain, program):
    program(contain(cable.b), contain(cable.a))


@pytest.fixture
def shared(tmp_path):
    """A directory of everybody."""
    tmp_path.chmod(0o1777)
    return tmp_path


@PROGRAMS
def test_two_with_a_directory_in_common(cable, contain, shared, program):
    """Networks of their own, and VERBATIM_SOCKET_DIR in a volume that both have."""
    program(contain(cable.b, shared=shared), contain(cable.a, shared=shared))


def start_stream(listener, connecter, op='write'):
    """A server and its client, which are connected."""
    port = free_port()
    argv = [harness.VERIFY, 'stream', '--port', port, '--op', op, '--sizes', 100]
    server = listener.start_server([*argv, '--listen', '::'], port)
    client = connecter.start(*argv, listener.address)
    client.wait_for('running')
    return server, client


def paths(end, qps):
    """Of the connected QPs of its network, of which there are as many before long."""
    def shown():
        return [qp['path'] for process in end.show()['processes'] for qp in process.get('qps', ())]
    harness.wait_until(lambda: len(shown()) == qps, 10, f'{qps} QPs')
    return shown()


@pytest.mark.parametrize('kind', ('root', 'nowhere_to_write', 'hidden_processes', 'no_proc'))
def test_a_directory_in_common_for_each_kind(cable, contain, shared, kind):
    first, second = contain(cable.b, KINDS[kind], shared), contain(cable.a, KINDS[kind], shared)
    server, client = start_stream(first, second)
    for end in first, second:
        assert paths(end, qps=1) == ['local']
    second.release(client)
    first.release(server)


def test_not_all_share_a_directory(cable, contain, shared):
    """The device of a process that does not share it fails to open where another one does."""
    first, second = contain(cable.b, shared=shared), contain(cable.a, shared=shared)
    server, client = start_stream(first, second)
    del first.env['VERBATIM_SOCKET_DIR']
    refused = first.start(harness.VERIFY, 'stream', '--port', free_port(), '--op', 'send', '--listen', '::')
    assert refused.wait(10) and 'VERBATIM_SOCKET_DIR' in refused.report(), refused.report()
    first.env['VERBATIM_SOCKET_DIR'] = SHARED
    second.release(client)
    first.release(server)


def test_the_daemons_of_a_shared_directory_are_killed(cable, contain, shared):
    """That of the directory ran in one of the two. Connections go on, and new ones are made."""
    first, second = contain(cable.b, shared=shared), contain(cable.a, shared=shared)
    server, client = start_stream(first, second)
    daemons = first.daemons()  # of both networks, and of the directory
    assert len(daemons) == 3
    for pid in daemons:
        os.kill(pid, signal.SIGKILL)
    others = start_stream(first, second)
    assert client.status is None and server.status is None, client.report() + server.report()
    for end in first, second:
        assert paths(end, qps=2) == ['local', 'local']
    pingpong(first, second)
    for left in server, others[0]:
        first.release(left)
    for left in client, others[1]:
        second.release(left)


def test_paths(cable, contain, shared):
    """Shared memory in a container, in a pod, and between those with a directory in common; UDP between others that have
    no network in common.
    """
    first, second, other = contain(cable.a), contain(cable.a), contain(cable.b)
    sharing = (contain(cable.a, shared=shared), contain(cable.b, shared=shared))
    for end, peer, path in ((first, first, 'local'), (first, second, 'local'), (first, other, 'wire'),
                            (*sharing, 'local')):
        server, client = start_stream(peer, end, op='send')
        shown = [qp['path'] for shows in (end, peer) for process in shows.show()['processes']
                 for qp in process.get('qps', ())]
        assert shown and set(shown) == {path}, end.show()
        end.release(client)
        peer.release(server)


LOOK = r'''
import ctypes, mmap, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(name, *arguments) < 0 and os.strerror(ctypes.get_errno())
def is_writable(folder):
    try:
        os.close(os.open(folder + '/probe', os.O_CREAT | os.O_WRONLY, 0o700))
        return True
    except OSError:
        return False
status = dict(line.split(':\t') for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
numbers = os.uname().machine == 'x86_64'
print('uid', os.getuid())
print('capabilities', int(status['CapEff'], 16) | int(status['CapPrm'], 16) | int(status['CapBnd'], 16))
print('locked', resource.getrlimit(resource.RLIMIT_MEMLOCK))
print('writable', [folder for folder in ('/', '/usr', '/run', '/dev', '/tmp', '/dev/shm') if is_writable(folder)])
print('executable', [folder for folder in ('/tmp', '/dev/shm') if os.access(folder + '/probe', os.X_OK)])
print('processes', sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[0], os.getpid() < 50)
print('userfaultfd', refused(323, 0) if numbers else 'Operation not permitted')
print('io_uring', refused(425, 0, 0) if numbers else 'Operation not permitted')
print('process_vm_readv', refused(310, os.getpid(), 0, 0, 0, 0, 0) if numbers else 'Operation not permitted')
'''


def test_they_have_the_limits_that_they_are_for(cable, contain):
    """Else the tests above would show nothing."""
    def look(kind):
        output = contain(cable.a, kind).start_plain('/usr/bin/python3', '-c', LOOK).finish()
        return dict(line.split(' ', 1) for line in output.splitlines())
    refused = 'Operation not permitted'
    assert look(KINDS['strict_filter']) == {
        'uid': '65534', 'capabilities': '0', 'locked': '(65536, 65536)', 'writable': "['/tmp', '/dev/shm']",
        'executable': '[]', 'processes': '1 True', 'userfaultfd': refused, 'io_uring': refused,
        'process_vm_readv': refused}
    usual = look(KINDS['usual'])
    assert usual['process_vm_readv'] == 'False' and usual['userfaultfd'] == refused, usual
    assert look(KINDS['nowhere_to_write'])['writable'] == "['/dev/shm']"
    hidden = look(KINDS['hidden_processes'])
    assert not hidden['processes'].startswith('1 '), hidden
    root = look(KINDS['root'])
    assert root['uid'] == '0' and int(root['capabilities']) & 1 << 21 == 0, root  # no CAP_SYS_ADMIN
    done = subprocess.run([*contain(cable.a, KINDS['no_proc']).prefix, 'ls', '-A', '/proc'], capture_output=True,
                          text=True, timeout=20, check=True)
    assert done.stdout == '', done.stdout
