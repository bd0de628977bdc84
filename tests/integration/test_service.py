# SPDX-License-Identifier: BSD-2-Clause
"""verbatimd under a service manager, which this file plays: it holds the listening socket, and stores the
descriptors of running processes' UDP ports for the daemon that comes after one that was killed.
"""
import array
import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from harness import BUILD, DEVICE, HOST, SLOWER, VERIFY, Program, free_port, wait_until
from test_daemon import as_nobody

VERBATIMD = BUILD / 'src/verbatimd/verbatimd'
UNITS = BUILD / 'src/verbatimd/systemd'
WIRE = {'VERBATIM_PATH': 'wire'}
PORT = 4791
NAME = 'port-00000000000000000000ffff7f000001-0'  # of 127.0.0.1
RECORD = struct.Struct('<Q1024Q16Q')
MAGIC = 0x3164726f63657256

# Puts the descriptors where a service manager does, and becomes the daemon.
BECOME = """
import os, sys
fds = [os.dup2(int(fd), 500 + i) for i, fd in enumerate(sys.argv[1].split(','))]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i)
os.environ['LISTEN_PID'] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Starts verbatimd as systemd does, with a socket and a descriptor store."""

    def __init__(self, runner, folder, *options, name=None):
        self.runner = runner
        self.options = options
        self.stored = []  # (name, descriptor)
        self.removed = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(f'\0verbatim.{name or os.geteuid()}.{runner.namespace}')
        self.listener.listen(100)
        self.path = folder / 'notify'
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inbox.bind(str(self.path))
        self.inbox.settimeout(10 * SLOWER)
        self.daemon = None

    def start(self):
        """Returns when the daemon says that it is ready."""
        names, fds = ['listen'], [self.listener.fileno()]
        for name, fd in self.stored:
            names.append(name)
            fds.append(fd)
        env = self.runner.environment({
            'LISTEN_FDS': len(fds), 'LISTEN_FDNAMES': ':'.join(names), 'NOTIFY_SOCKET': self.path})
        self.daemon = Program(
            [sys.executable, '-c', BECOME, ','.join(map(str, fds)), VERBATIMD, *self.options, '--foreground'],
            env, pass_fds=fds)
        while not self._take_message():
            pass

    def _take_message(self):
        """Whether the message said that the daemon is ready."""
        data, ancillary, _, _ = self.inbox.recvmsg(4096, socket.CMSG_SPACE(64))
        values = dict(line.split('=', 1) for line in data.decode().splitlines())
        fds = array.array('i')
        for _, _, bytes_ in ancillary:
            fds.frombytes(bytes_)
        if values.get('FDSTORE') == '1':
            assert values.get('FDPOLL') == '0'
            self.stored += [(values['FDNAME'], fd) for fd in fds]
        else:
            assert not fds
        if values.get('FDSTOREREMOVE') == '1':
            self.removed.append(values['FDNAME'])
            for _, fd in [s for s in self.stored if s[0] == values['FDNAME']]:
                os.close(fd)
            self.stored = [s for s in self.stored if s[0] != values['FDNAME']]
        return values.get('READY') == '1'

    def look(self):
        """Takes what has arrived."""
        self.inbox.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._take_message()
        self.inbox.settimeout(10 * SLOWER)

    def kill(self):
        self.look()
        self.daemon.signal(signal.SIGKILL)
        assert self.daemon.wait(5) is not None

    def close(self):
        if self.daemon:
            self.daemon.stop()
        for _, fd in self.stored:
            os.close(fd)
        self.listener.close()
        self.inbox.close()


@pytest.fixture
def manage(fresh_runner, tmp_path):
    """Makes a runner and its manager."""
    managers = []

    def make(*options, name=None):
        manager = Manager(fresh_runner(), tmp_path, *options, name=name)
        managers.append(manager)
        return manager
    yield make
    for manager in managers:
        manager.runner.release(*list(manager.runner.programs))
        manager.close()


@pytest.fixture
def system(manage):
    if os.geteuid() != 0:
        pytest.skip('only root can run verbatimd --system')
    manager = manage('--system', name='system')
    manager.start()
    return manager


def start_stream(runner, before_client=()):
    """Two processes with traffic through UDP, which goes on until one of them dies."""
    port = free_port()
    argv = [VERIFY, 'stream', '--port', port]
    server = runner.start_server(argv, port, env=WIRE)
    client = runner.start(*argv, HOST, env=WIRE, before=before_client)
    for end in (server, client):
        end.wait_for('running')
    return server, client


def check_data(runner, before_client=()):
    port = free_port()
    argv = [VERIFY, 'data', '--port', port, '--count', 200, '--sizes', '1,4096,100000']
    server = runner.start_server(argv, port, env=WIRE)
    client = runner.start(*argv, HOST, env=WIRE, before=before_client)
    for end in (client, server):
        assert 'verified 600 messages' in end.finish()


def returned(runner, *programs):
    wanted = len(programs)
    wait_until(lambda: len(runner.show()['processes']) == wanted, 10 * SLOWER, f'{wanted} processes came back')


def port_is_free():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((HOST, PORT))
        except OSError:
            return False
    return True


def test_ports_of_all_users_outlive_the_systems_daemon(system):
    """Twice: what the first daemon stored, and the second one only took, is there for the third."""
    runner, nobody = system.runner, as_nobody()
    ends = start_stream(runner, nobody)
    system.look()
    assert [name for name, _ in system.stored] == [NAME] * 2, 'the descriptor store and the record of one address'
    for _ in range(2):
        system.kill()
        system.start()
        check_data(runner, nobody)
        returned(runner, *ends)
        assert all(end.status is None and 'dead' not in end.output() for end in ends), \
            ends[0].report() + ends[1].report()
    system.look()
    assert not system.removed
    owners = {process['slot']: os.stat(f'/proc/{process["pid"]}').st_uid for process in runner.show()['processes']}
    assert set(owners.values()) == {0, pwd.getpwnam('nobody').pw_uid}
    # Nobody else's packets: each end gets on with its requests until the other one is dead.
    ends[1].signal(signal.SIGKILL)
    ends[0].wait_for('dead', 15)
    runner.release(*ends)
    wait_until(lambda: system.look() or system.removed == [NAME], 10 * SLOWER, 'the port is given up')


def test_a_slot_stays_with_its_user_when_the_systems_daemon_is_killed(system):
    """A process that ended may have left copies of its socket: its slot is for its own user only."""
    runner, nobody = system.runner, as_nobody()
    ends = start_stream(runner)
    port = free_port()
    argv = [VERIFY, 'stream', '--port', port]
    theirs = [runner.start_server(argv, port, env=WIRE, before=nobody),
              runner.start(*argv, HOST, env=WIRE, before=nobody)]
    for end in theirs:
        end.wait_for('running')
    uid_of = {process['slot']: os.stat(f'/proc/{process["pid"]}').st_uid for process in runner.show()['processes']}
    slots_of_nobody = {slot for slot, uid in uid_of.items() if uid}
    assert len(slots_of_nobody) == 2
    system.kill()
    runner.release(*theirs)
    system.start()
    returned(runner, *ends)
    more = start_stream(runner)
    slots_of_root = {process['slot'] for process in runner.show()['processes']}
    assert len(slots_of_root) == 4 and not slots_of_root & slots_of_nobody
    runner.release(*ends, *more)


def test_ports_of_processes_that_end_without_a_daemon_are_given_up(system):
    runner = system.runner
    ends = start_stream(runner)
    system.kill()
    runner.release(*ends)
    assert not port_is_free(), 'the store holds it'
    system.start()
    wait_until(lambda: system.look() or system.removed == [NAME], 10 * SLOWER, 'the port is given up')
    wait_until(port_is_free, 5 * SLOWER, 'the port is free')
    check_data(runner)


def test_an_orderly_end_leaves_the_ports_stored(system):
    """As `systemctl restart` does it."""
    runner = system.runner
    ends = start_stream(runner)
    system.daemon.signal(signal.SIGTERM)
    assert system.daemon.wait(5) == 0
    system.look()
    assert not system.removed
    system.start()
    check_data(runner)
    returned(runner, *ends)
    assert all(end.status is None and 'dead' not in end.output() for end in ends)
    runner.release(*ends)


def test_a_call_that_was_given_up_does_not_cost_the_port(system):
    """Processes call while only the manager listens, give up and call again: the next daemon meets all calls."""
    runner = system.runner
    ends = start_stream(runner)
    system.kill()
    time.sleep(1.5)
    system.start()
    check_data(runner)
    returned(runner, *ends)
    assert all(end.status is None and 'dead' not in end.output() for end in ends)
    runner.release(*ends)


def make_fd_store(*sockets):
    fd_store = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    fd_store.bind('')
    fd_store.connect(fd_store.getsockname())
    if sockets:
        socket.send_fds(fd_store, [b'\0'], [s.fileno() for s in sockets])
    return fd_store


def udp_sockets(address, shares=True):
    sockets = []
    for _ in range(4):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(address)
        sockets.append(s)
    if not shares:
        sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
    return sockets


def memory_file(content):
    fd = os.memfd_create('record')
    os.write(fd, content)
    return fd


GOOD_RECORD = RECORD.pack(MAGIC, *[0] * 1040)


@pytest.mark.parametrize('what', ['another address', 'no reuseport', 'empty', 'no record', 'short record',
                                  'strange record', 'no descriptor store', 'name'])
def test_what_is_stored_is_checked(system, what):
    sockets = [] if what == 'empty' else udp_sockets(
        (HOST, 4790 if what == 'another address' else PORT), what != 'no reuseport')
    fd_store = make_fd_store(*sockets)
    record = memory_file({'short record': GOOD_RECORD[:100], 'strange record': bytes(RECORD.size)}
                         .get(what, GOOD_RECORD))
    name = 'port-7f000001' if what == 'name' else NAME
    system.kill()
    if what != 'no descriptor store':
        system.stored.append((name, os.dup(fd_store.fileno())))
    if what != 'no record':
        system.stored.append((name, os.dup(record)))
    fd_store.close()
    os.close(record)
    for s in sockets:
        s.close()
    system.start()
    system.daemon.wait_for(f'what was stored as {name} is of no use')
    system.look()
    assert system.removed == [name]
    check_data(system.runner)


def test_programs_use_the_service_and_start_no_daemon(manage):
    manager = manage()
    manager.start()
    runner = manager.runner
    holder_port = free_port()
    holder = runner.start_server([VERIFY, 'data', '--port', holder_port], holder_port)
    assert runner.daemons() == [manager.daemon.pid]
    runner.release(holder)


def test_a_program_waits_for_the_service_that_was_killed(manage):
    """Nothing is refused meanwhile: the manager has the listening socket."""
    manager = manage()
    manager.start()
    manager.kill()
    program = manager.runner.start('ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', free_port())
    assert program.wait(0.5) is None
    assert not manager.runner.daemons()
    manager.start()
    wait_until(lambda: manager.runner.show()['processes'], 10 * SLOWER, 'the program is served')
    assert manager.runner.daemons() == [manager.daemon.pid]
    manager.runner.release(program)


@pytest.mark.parametrize('of', ['user', 'system'])
def test_units_are_valid(tmp_path, of):
    if not shutil.which('systemd-analyze'):
        pytest.skip('there is no systemd-analyze')
    name = 'verbatimd' if of == 'user' else 'verbatimd-system'
    for kind in ('socket', 'service'):
        text = (UNITS / f'{name}.{kind}').read_text()
        assert not re.search(r'@[A-Z_]+@', text), 'a path was not filled in'
        # It is not installed where it will be.
        (tmp_path / f'{name}.{kind}').write_text(re.sub(r'(?<=ExecStart=)\S+', str(VERBATIMD), text))
    done = subprocess.run(
        ['systemd-analyze', f'--{of}', '--man=no', 'verify', tmp_path / f'{name}.socket', tmp_path / f'{name}.service'],
        env={**os.environ, 'XDG_RUNTIME_DIR': str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
