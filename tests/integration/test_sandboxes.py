# SPDX-License-Identifier: BSD-2-Clause
"""In sandboxes that an ordinary user makes, without a privileged program: by bwrap (bubblewrap), as Flatpak does, and by
unshare, as root of a user namespace. Programs find each other in one sandbox, in two that have the network of their host,
and in one and outside.
"""
import os
import pathlib
import shutil
import subprocess

import pytest

import harness
import netns
from test_containers import paths, pingpong, rping, start_stream, write
from test_daemon import as_nobody

pytestmark = pytest.mark.network

BWRAP = ('bwrap', '--die-with-parent', '--unshare-all', '--ro-bind', '/', '/', '--dev', '/dev')
UNSHARE = ('unshare', '--user', '--map-root-user', '--mount', '--pid', '--ipc', '--uts', '--fork', '--kill-child',
           '--propagation=private')
HOLD = 'echo; cat >/dev/null'
MOUNTS = f'''
    mount -t proc proc /proc
    mount -t tmpfs -o noexec,mode=1777 none /dev/shm
    mount -t tmpfs -o noexec,mode=1777 none /tmp
    mount -o remount,bind,ro /
    {HOLD}
'''
# What makes it, and what its first process does.
KINDS = {
    'bwrap': ((*BWRAP, '--proc', '/proc', '--tmpfs', '/tmp'), HOLD),
    'nowhere_to_write': ((*BWRAP, '--proc', '/proc', '--remount-ro', '/dev'), HOLD),
    'no_proc': ((*BWRAP, '--tmpfs', '/proc', '--remount-ro', '/proc', '--tmpfs', '/tmp'), HOLD),
    'unshare': ((*UNSHARE, '--net'), f'ip link set lo up\n{MOUNTS}'),
}
# In the network of their host.
SHARING = {
    'bwrap': ((*BWRAP, '--share-net', '--proc', '/proc', '--tmpfs', '/tmp'), HOLD),
    'unshare': (UNSHARE, MOUNTS),
    'same_number': (('unshare', '--user', '--map-current-user', '--pid', '--mount-proc', '--ipc', '--fork', '--kill-child'),
                    HOLD),
}


def ordinary():
    """What to put before a command so that a user runs it who may make user namespaces."""
    identity = as_nobody()
    refused = subprocess.run([*identity, 'unshare', '--user', 'true'], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(f'an ordinary user gets no user namespace: {refused.stderr.strip()}')
    return identity


def innermost(pid):
    """The last of its children's children."""
    while children := pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='ascii').split():
        pid = int(children[0])
    return pid


class Outside(harness.Runner):
    """Where the sandboxes are made, as the user who makes them."""
    address = harness.HOST

    def __init__(self, namespace):
        super().__init__(namespace, linger_ms=300, VERBATIM_EXPLAIN='1')
        self.prefix = tuple(ordinary())


class Sandbox(Outside):
    """What is started has the namespaces, the user and the capabilities of its first process. Only root can enter it:
    bwrap leaves the user namespace that owns the other ones.
    """

    def __init__(self, namespace, kind):
        super().__init__(namespace)
        words, program = kind
        if not shutil.which(words[0]):
            pytest.skip(f'there is no {words[0]}')
        if str(harness.BUILD).startswith('/tmp/'):
            pytest.skip('sandboxes have a /tmp of their own, without what was built there')
        group = next(word for word in self.prefix if word.startswith('--regid='))
        self._holder = netns.hold(*self.prefix, *words, program=('sh', '-ec', program))
        self.anchor = innermost(self._holder.pid)
        user = pathlib.Path(f'/proc/{self.anchor}/uid_map').read_text(encoding='ascii').split()[0]
        self.prefix = ('setpriv', '--clear-groups', group, '--no-new-privs', 'nsenter', f'--target={self.anchor}',
                       '--user', '--mount', '--pid', '--ipc', '--uts', '--net', '--preserve-credentials',
                       f'--setuid={user}', '--')

    def close(self):
        left = super().close()
        netns.release(self._holder)
        return left


@pytest.fixture
def sandbox():
    """sandbox(kind) makes one, and sandbox() is outside; all of a test have the same variables."""
    made = []

    def make(kind=None):
        name = f'sandbox-{os.getpid()}'
        made.append(Sandbox(name, kind) if kind else Outside(name))
        return made[-1]
    yield make
    harness.close_all(made)


@pytest.mark.parametrize('kind, program', [
    pytest.param(kind, program, id=f'{program.__name__}-{kind}',
                 marks=[] if program == pingpong or kind == 'unshare' else pytest.mark.long)
    for kind in KINDS for program in (pingpong, rping, write)])
def test_in_one(sandbox, kind, program):
    one = sandbox(KINDS[kind])
    program(one, one)


@pytest.mark.parametrize('kind, program', [
    pytest.param(kind, program, id=f'{program.__name__}-{kind}',
                 marks=[] if program == pingpong or kind == 'bwrap' else pytest.mark.long)
    for kind in SHARING for program in (pingpong, rping, write)])
def test_two_in_one_network(sandbox, kind, program):
    """No file is common to them, nor do they see each other's processes: they meet at the daemon's abstract name."""
    program(sandbox(SHARING[kind]), sandbox(SHARING[kind]))


@pytest.mark.parametrize('first, second', [
    ('bwrap', 'bwrap'), ('unshare', 'unshare'), ('bwrap', None), (None, 'bwrap'), ('same_number', 'bwrap')])
def test_paths(sandbox, first, second):
    """By shared memory, though neither may reach into the other's process."""
    ends = [sandbox(SHARING.get(kind)) for kind in (first, second)]
    server, client = start_stream(*ends)
    for end in ends:
        assert paths(end, qps=2) == ['local', 'local']
    ends[1].release(client)
    ends[0].release(server)


def test_root_of_a_sandbox_is_another_user(sandbox):
    """To those whose user is shown by its own number, and it is told so."""
    inside, outside = sandbox(SHARING['unshare']), sandbox()
    port = harness.free_port()
    argv = [harness.VERIFY, 'stream', '--port', port, '--op', 'send']
    server = outside.start_server([*argv, '--listen', '::'], port)
    client = inside.start(*argv, inside.address)
    client.finish(20)
    assert 'PEER_QP_MISSING' in client.output() and 'give both ends the same UID' in client.output(), client.report()
    outside.release(server)
    inside.release(client)


LOOK = r'''
import os
status = dict(line.split(':\t') for line in open('/proc/self/status').read().splitlines() if ':\t' in line)
print('uid', os.getuid())
print('users', open('/proc/self/uid_map').read().split())
print('capabilities', int(status['CapEff'], 16) != 0)
print('privileges', status['NoNewPrivs'])
print('writable', [folder for folder in ('/', '/usr', '/run', '/dev', '/tmp', '/dev/shm') if os.access(folder, os.W_OK)])
print('processes', sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[0], os.getpid() < 50)
'''


def test_they_have_the_limits_that_they_are_for(sandbox):
    """Else the tests above would show nothing."""
    def look(kind):
        output = sandbox(KINDS[kind]).start_plain('/usr/bin/python3', '-c', LOOK).finish()
        return dict(line.split(' ', 1) for line in output.splitlines())
    expected = {'uid': '65534', 'users': "['65534', '0', '1']", 'capabilities': 'False', 'privileges': '1',
                'writable': "['/dev', '/tmp', '/dev/shm']", 'processes': '1 True'}
    assert look('bwrap') == expected
    assert look('nowhere_to_write')['writable'] == '[]'
    root = {'uid': '0', 'users': "['0', '65534', '1']", 'capabilities': 'True', 'writable': "['/tmp', '/dev/shm']"}
    assert look('unshare') == {**expected, **root}
