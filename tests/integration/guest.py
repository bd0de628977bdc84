# SPDX-License-Identifier: BSD-2-Clause
"""A small guest with Linux's soft-RoCE (rxe) and iWARP (siw) as the other end of a cable.

The machine itself is made and driven by a script that VERBATIM_GUEST names and that is not part of
the project: without it there is no guest. Its image takes a minute to build and is kept in
VERBATIM_CACHE.
"""
import fcntl
import hashlib
import ipaddress
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness
import netns

SCRIPT = pathlib.Path(os.environ.get('VERBATIM_GUEST') or harness.ROOT.parent / 'shared/rxe-guest.sh').resolve()
CACHE = pathlib.Path(os.environ.get('VERBATIM_CACHE', '~/.cache/verbatim')).expanduser()
IMAGE = CACHE / 'rxe-guest'
SYSTEM_LIBRARIES = '/usr/lib/x86_64-linux-gnu'
PARTS = ('vmlinux', 'initrd', 'root')
# Through a test, however slow the guest is, it is one verbatimd: the next one's PSNs of QP 1 begin anew.
LINGER_MS = 20000
NO_NETWORK = re.compile(r'Could not resolve|Failed to fetch|Unable to fetch|Could not connect|'
                        r'Temporary failure|Unable to locate package')


class Unavailable(Exception):
    """There can be no guest here; says why."""


def build(seconds=400):
    """The image, built if it is missing or the script has changed."""
    if not SCRIPT.is_file():
        raise Unavailable('VERBATIM_GUEST names no script that makes a guest')
    if os.geteuid() != 0:
        raise Unavailable('a guest on a tap needs root')
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp = IMAGE / 'built-by'
    digest = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    with open(CACHE / 'rxe-guest.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest and \
                all((IMAGE / part).exists() for part in PARTS):
            return
        done = subprocess.run([SCRIPT, IMAGE, 'build'], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds, check=False)
        if done.returncode:
            if NO_NETWORK.search(done.stdout):
                raise Unavailable(f'the image needs packages of Debian: {done.stdout[-500:]}')
            raise AssertionError(f'the image of the guest was not built\n{done.stdout[-4000:]}')
        stamp.write_text(digest)


def libraries(place):
    """What the programs of a folder need of the system, and the guest may not have."""
    found = set()
    for path in place.rglob('*'):
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK):
            output = subprocess.run(['ldd', path], capture_output=True, text=True, check=False).stdout
            found |= set(re.findall(r'=> ((?:/usr)?/lib/\S+)', output))
    return {path for path in found
            if not re.search(r'/(libc|ld-linux\S*|libm|libibverbs|librdmacm)\.so', path)}


def until_listening(port):
    """For a script of the guest: goes on when a program listens on the TCP port, or after ten seconds."""
    return (f'for i in $(seq 100); do cat /proc/net/tcp /proc/net/tcp6 | grep -q ":{port:04X} .* 0A " && break; '
            'sleep 0.1; done')


class Guest:
    """A running guest, and the host side of its tap: a context manager.

    `host` starts programs over Verbatim on the host side; `start` and `run` those of the guest.
    `share` is a directory of the host that the guest sees as /share.
    """
    address = '10.77.0.2'
    address_ipv6, host_address_ipv6 = 'fd77::2', 'fd77::1'

    def __init__(self, mtu=1500, **environment):
        self.mtu = mtu
        self.namespace = f'vrb{os.getpid()}'
        self._directory = tempfile.TemporaryDirectory(prefix='verbatim-guest-')
        self.path = pathlib.Path(self._directory.name)
        self.share = self.path / 'share'
        self.share.mkdir()
        for part in PARTS:
            (self.path / part).symlink_to(IMAGE / part)
        self._environment = {**os.environ, 'NS': self.namespace, 'MTU': str(mtu), **environment}
        self.host = None
        self.programs = []
        self._device = 'rxe'

    def _script(self, *words):
        return [str(SCRIPT), str(self.path), *map(str, words)]

    def _call(self, *words, seconds=150):
        return subprocess.run(self._script(*words), env=self._environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)

    def __enter__(self):
        try:
            with open(self.path / 'start.log', 'w+', encoding='utf-8') as log:
                # Not through a pipe: qemu would hold it for as long as it runs.
                done = subprocess.run(self._script('start'), env=self._environment,
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      timeout=150, check=False)
                log.seek(0)
                assert done.returncode == 0, f'the guest does not start\n{log.read()}'
            path = f'/run/netns/{self.namespace}'
            self.host = netns.Host(f'guest-{os.getpid()}', ['nsenter', f'--net={path}', '--'],
                                   int((self.path / 'qemu.pid').read_text()), interface='tap0',
                                   addresses=['10.77.0.1'], linger_ms=LINGER_MS)
            self._add_ipv6()
            # So that what is captured is what is on the wire, should the tap ever learn to cut bursts.
            self.host.command('ethtool', '-K', 'tap0', 'tx-udp-segmentation', 'off', check=False)
            # An emulated machine takes packets ten times as slowly as they come, and UC repeats none.
            self.host.ip('link', 'set', 'tap0', 'txqueuelen', 10000)
            shutil.copy(harness.VERIFY, self.share)
        except BaseException:
            self._stop()
            raise
        return self

    def _add_ipv6(self):
        """Both ends get an IPv6 address beside the link-local one that the kernel makes of the MAC."""
        self.host.ip('addr', 'add', f'{self.host_address_ipv6}/64', 'dev', 'tap0', 'nodad')
        self.run('echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; '
                 f'ip -6 addr add {self.address_ipv6}/64 dev eth0')
        ours = f'ip -6 -o addr show dev {self.host.interface} scope link'
        theirs = 'ip -6 -o addr show dev eth0 scope link'
        harness.wait_until(lambda: all('fe80' in text and 'tentative' not in text for text in (
            self.host.command(*ours.split()), self.run(theirs))), 10, 'link-local addresses')
        self.link_local = re.search(r'fe80[^/]*', self.run(theirs))[0]
        self.host_link_local = re.search(r'fe80[^/]*', self.host.command(*ours.split()))[0]
        self._keep_neighbours()
        self._gids = {}
        names = '/sys/class/infiniband/rxe0/ports/1/gids'
        for index, gid in re.findall(r'(\d+):([0-9a-f:]{39})', self.run(
                f'for i in $(ls {names} | sort -n | head -16); do echo $i:$(cat {names}/$i); done')):
            self._gids.setdefault(ipaddress.ip_address(gid), int(index))

    def _keep_neighbours(self):
        """Each end knows the other's MAC from the beginning. While it is asked for, packets to it wait in a queue
        of the kernel, which, once there is an answer, sends them outside its locks: what is posted meanwhile
        overtakes them, as no adapter would let it, and the checks of a capture would take it for an error of its
        sender. An emulated machine takes long enough to answer for that.
        """
        ours = re.search(r'link/ether (\S+)', self.host.ip('-o', 'link', 'show', self.host.interface))[1]
        keep = 'neigh replace {} lladdr {} dev {} nud permanent'.format
        # by its path: busybox has an ip of its own, which cannot do that
        theirs = self.run(' && '.join(['/bin/ip ' + keep(address, ours, 'eth0') for address in (
            self.host.address, self.host_address_ipv6, self.host_link_local)] +
                                      ['cat /sys/class/net/eth0/address'])).strip()
        for address in self.address, self.address_ipv6, self.link_local:
            self.host.ip(*keep(address, theirs, self.host.interface).split())

    def ends(self, family):
        """(Address, GID index) of the host's end, and of the guest's."""
        ours, theirs = {'ipv4': (self.host.address, self.address),
                        'ipv6': (self.host_address_ipv6, self.address_ipv6),
                        'link_local': (self.host_link_local, self.link_local)}[family]
        gid = ipaddress.ip_address(f'::ffff:{theirs}' if family == 'ipv4' else theirs)
        assert gid in self._gids, f'{gid} is no GID of rxe0: {self._gids}'
        return (ours, self.host.gid_index(ours)), (theirs, self._gids[gid])

    def choose(self, device):
        """Makes this the only RDMA device of the guest: 'rxe', 'siw' or 'none'. Ends who has another one open, for
        which its removal would wait.
        """
        self.run("""for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in /dev/infiniband/*)
            p=${f#/proc/}; kill -9 ${p%%/*};; esac; done 2>/dev/null; true""")
        if device != self._device:
            self._device = None  # should it fail
            self.run(f'rdev {device}')
            self._device = device

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Returns {pid: name} of what would not go by itself on the host side."""
        if self.host:
            self.host.stop_daemons()
        left = self.host.close() if self.host else {}
        self._stop()
        return left

    def _stop(self):
        for program in self.programs:
            program.stop()
        self._call('stop')
        self._directory.cleanup()

    def start(self, command):
        """A shell command in the guest, in the background, with its output here."""
        program = harness.Program(self._script('sh', command), self._environment)
        self.programs.append(program)
        return program

    def run(self, command, seconds=30, status=0):
        """The output of a shell command in the guest, whatever its status if that is None."""
        program = self.start(command)
        try:
            return program.finish(seconds, program.wait(seconds) if status is None else status)
        finally:
            self.release(program)

    def insert(self, *modules):
        """Loads modules of the guest's kernel, by their paths in its folder, in this order."""
        kernel = next(IMAGE.glob('kernel/lib/modules/*/kernel'))
        for module in modules:
            shutil.copy(kernel / module, self.share)
            self.run(f'insmod /share/{pathlib.Path(module).name}')

    def install(self, *programs):
        """Puts a copy of this build, these programs beside it, and the libraries that they need, where the guest
        finds them: /share/verbatim, /share and its own folder of libraries.
        """
        subprocess.run(['meson', 'install', '-C', harness.BUILD, '--no-rebuild', '--quiet', '--destdir',
                        self.share / 'verbatim'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for program in programs:
            shutil.copy(program, self.share)
        (self.share / 'libraries').mkdir(exist_ok=True)
        for path in libraries(self.share):
            shutil.copy(path, self.share / 'libraries')
        self.run(f'cp /share/libraries/* {SYSTEM_LIBRARIES}/')

    def release(self, program):
        program.stop()
        self.programs.remove(program)

    def wait_listening(self, port, program, seconds=20):
        """Returns when a program in the guest listens on the TCP port; it has to be `program`."""
        wanted = f'{port:04X}'
        try:
            self.run(f"for i in $(seq {seconds * 20}); do awk '$4 == \"0A\" {{ print $2 }}' "
                     f"/proc/net/tcp /proc/net/tcp6 | grep -q ':{wanted}$' && exit 0; "
                     'sleep 0.05; done; exit 1', seconds=seconds + 10)
        except AssertionError as error:
            raise AssertionError(f'{error}\n{program.report()}') from None
