# SPDX-License-Identifier: BSD-2-Clause
"""Hosts that are network namespaces of this machine, two of them joined by a cable: a veth pair, or one
that is like that between two network cards.

A namespace is held by a process that ends with this one, whatever way that goes; the last process
gone, the kernel removes the namespace and the cable with it: no names, nothing left behind. An
ordinary user gets a user namespace first, in which that is allowed.
"""
import ipaddress
import itertools
import os
import pathlib
import re
import subprocess
import tempfile

import harness

INTERFACE = 'net0'  # the same in all namespaces
counter = itertools.count()  # of the cables of this worker
MANAGEMENT = 'mgmt0'  # where a host has one; Verbatim does not use it
CARRIER = harness.BUILD / 'tests/integration/cable/cable'


class Unavailable(Exception):
    """This machine has no namespaces for us; says why."""


def hold(*argv, program=('sh', '-c', 'echo; exec cat >/dev/null')):
    """A process that ends when its standard input does. Returns it once the namespaces are made."""
    holder = subprocess.Popen([*argv, *map(str, program)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, start_new_session=True)
    if not holder.stdout.readline():
        raise Unavailable(f'no network namespaces: {holder.stderr.read().decode().strip()}')
    return holder


def release(holder):
    holder.stdin.close()
    holder.wait()
    holder.stdout.close()
    holder.stderr.close()


class Host(harness.Runner):
    """A runner whose programs are in one network namespace, with a daemon of their own."""

    def __init__(self, name, prefix, anchor, interface=INTERFACE, addresses=(), **options):
        super().__init__(name, VERBATIM_DEVICES=interface, VERIFY_DEVICE=f'vrb_{interface}',
                         **options)
        self.prefix = tuple(prefix)
        self.anchor = anchor
        self.interface = interface
        self.device = f'vrb_{interface}'
        self.addresses = list(addresses)
        self.management = None
        self._gids = {}

    @property
    def address(self):
        return self.addresses[0]

    def command(self, *argv, check=True, seconds=20):
        """The standard output of a program that is no part of the test."""
        done = subprocess.run([*self.prefix, *map(str, argv)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds, check=False)
        if check and done.returncode:
            raise AssertionError(f'{" ".join(map(str, argv))}: status {done.returncode}\n'
                                 f'{done.stdout}{done.stderr}')
        return done.stdout

    def ip(self, *words):
        return self.command('ip', *words)

    def gid_index(self, address):
        """Of the GID that stands for an IPv4 or IPv6 address."""
        wanted = ipaddress.ip_address(address)
        if wanted.version == 4:
            wanted = ipaddress.ip_address(f'::ffff:{wanted}')
        if wanted not in self._gids:
            output = self.run(harness.VERIFY, 'address')
            for index, gid in re.findall(r'^gid (\d+) (\S+)$', output, re.MULTILINE):
                self._gids[ipaddress.ip_address(gid)] = int(index)
        assert wanted in self._gids, f'{address} is no GID of {self.device}: {self._gids}'
        return self._gids[wanted]


class Cable:
    """Two hosts, a and b, joined by a pair of Ethernet interfaces. A context manager.

    `segment` leaves the cutting of bursts to the interface, as it is by default on veth: fast, but
    a capture then shows packets that no wire ever carried. Captures want it off.

    `cards`: a packet keeps nothing of what its sender's kernel knew of it, above all not the hash of its
    socket, and several arrive at once, as on the cable between two network cards. Its two ends are veth
    pairs, and a process in a third namespace carries the frames. `merge`: the receiver's kernel merges
    them (GRO). Such hosts have a management network besides (`Host.management` is an address of it), over
    which programs can arrange what they do: UD has no flow control, so datagrams fill the queue of a
    cable, and a TCP connection through the same queue waits for seconds, backs off, and may not get
    through before they end.

    `delay_us`: a long cable; each frame takes so long, one way, whatever the kernel has (netem need not be
    there).

    The hosts' names begin with `name`. No cable of another worker has them, as closing a host ends all
    processes of its name.
    """

    def __init__(self, mtu=1500, segment=True, name='net', cards=False, merge=True, delay_us=0,
                 **options):
        self.mtu = mtu
        name = f'{name}-{os.getpid()}-{next(counter)}'
        self._holders = []
        self._user = ()
        try:
            if os.geteuid() != 0:
                outer = hold('unshare', '--user', '--map-root-user', '--keep-caps')
                self._holders.append(outer)
                self._user = ('nsenter', f'--user=/proc/{outer.pid}/ns/user',
                              '--preserve-credentials', '--')
            self.a = self._host(name + 'a', 1, options)
            self.b = self._host(name + 'b', 2, options)
            self.hosts = (self.a, self.b)
            if cards:
                self._join_cards(merge)
            elif delay_us:
                self._join_afar(delay_us)
            else:
                self._join(segment)
            self._set_up()
            if cards:
                self._keep_neighbours()
        except BaseException:
            self._drop()
            raise

    def _host(self, name, number, options):
        holder = hold(*self._user, 'unshare', '--net', '--')
        self._holders.append(holder)
        enter = ['nsenter', f'--net=/proc/{holder.pid}/ns/net']
        if self._user:
            enter += [self._user[1], self._user[2]]
        return Host(name, [*enter, '--'], holder.pid,
                    addresses=[f'10.78.0.{number}', f'fd78::{number}', f'fe80::{number}'], **options)

    def _join(self, segment):
        self.a.ip('link', 'add', INTERFACE, 'mtu', self.mtu, 'type', 'veth',
                  'peer', 'name', INTERFACE, 'mtu', self.mtu, 'netns', self.b.anchor)
        if not segment:
            for host in self.hosts:
                host.command('ethtool', '-K', INTERFACE, 'tx-udp-segmentation', 'off')

    def _to_middle(self):
        """The third namespace, and (end in it, host) of two more pairs."""
        middle, ends = self._host('', 3, {}), list(zip(('enda', 'endb'), self.hosts))
        for name, host in ends:
            host.ip('link', 'add', INTERFACE, 'mtu', self.mtu, 'type', 'veth',
                    'peer', 'name', name, 'mtu', self.mtu, 'netns', middle.anchor)
        return middle, ends

    def _join_afar(self, delay_us):
        middle, ends = self._to_middle()
        for name, _ in ends:
            middle.ip('link', 'set', name, 'promisc', 'on', 'up')
        self._holders.append(hold(*middle.prefix, program=(CARRIER, 'enda', 'endb', delay_us)))

    def _join_cards(self, merge):
        middle, ends = self._to_middle()
        for name, host in ends:
            # Frames leave as they would on a wire: each packet by itself, with its checksums.
            host.command('ethtool', '-K', INTERFACE, 'tx', 'off', 'tx-udp-segmentation', 'off',
                         'gro', 'on' if merge else 'off')
            middle.command('ethtool', '-K', name, 'tx', 'off', 'tso', 'off', 'gso', 'off', 'gro', 'off')
            # As an interrupt that is held back: what came meanwhile is looked at together.
            try:
                host.command('unshare', '--mount', 'sh', '-ec', f"""
                    mount -t sysfs none /sys
                    echo 20000 >/sys/class/net/{INTERFACE}/gro_flush_timeout
                    echo 1 >/sys/class/net/{INTERFACE}/napi_defer_hard_irqs""")
            except AssertionError as refused:
                raise Unavailable(f'only root can hold interrupts back: {refused}') from refused
            middle.ip('link', 'set', name, 'promisc', 'on', 'up')
        self._holders.append(hold(*middle.prefix, program=(CARRIER, 'enda', 'endb')))
        self._join_management()

    def _join_management(self):
        self.a.ip('link', 'add', MANAGEMENT, 'type', 'veth',
                  'peer', 'name', MANAGEMENT, 'netns', self.b.anchor)
        for number, host in enumerate(self.hosts, 1):
            host.management = f'10.79.0.{number}'
            host.ip('addr', 'add', f'{host.management}/24', 'dev', MANAGEMENT)
        for host in self.hosts:
            host.ip('link', 'set', MANAGEMENT, 'up')

    def _set_up(self):
        for host in self.hosts:
            ipv4, ipv6, local = host.addresses
            host.ip('link', 'set', 'lo', 'up')
            # Addresses that are there at once, and no others that come later.
            host.ip('link', 'set', INTERFACE, 'addrgenmode', 'none')
            host.ip('addr', 'add', f'{ipv4}/24', 'dev', INTERFACE)
            for address in (ipv6, local):
                host.ip('addr', 'add', f'{address}/64', 'dev', INTERFACE, 'nodad')
        for host in self.hosts:
            host.ip('link', 'set', INTERFACE, 'up')
        for host in self.hosts:  # the kernel is in no hurry to tell that there is a carrier
            harness.wait_until(lambda host=host: 'state UP' in host.ip('link', 'show', INTERFACE),
                               5, f'{INTERFACE} up')

    def make_anew(self):
        """Both interfaces, with the names and addresses that they had, and other indexes."""
        before = [host.ip('-o', 'link', 'show', INTERFACE).split(':')[0] for host in self.hosts]
        self.a.ip('link', 'del', INTERFACE)
        self._join(True)
        self._set_up()
        after = [host.ip('-o', 'link', 'show', INTERFACE).split(':')[0] for host in self.hosts]
        assert all(old != new for old, new in zip(before, after)), (before, after)

    def _keep_neighbours(self):
        """Who has an address is asked through the queue of the cable too, and the kernel gives up after three
        seconds: beside datagrams that fill it that is too soon.
        """
        for host, other in (self.hosts, self.hosts[::-1]):
            mac = re.search(r'link/ether (\S+)', other.ip('-o', 'link', 'show', INTERFACE))[1]
            for address in other.addresses:
                host.ip('neigh', 'replace', address, 'lladdr', mac, 'dev', INTERFACE, 'nud', 'permanent')

    def _drop(self):
        for holder in reversed(self._holders):
            release(holder)
        self._holders = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Returns {pid: name} of what would not go by itself, as Runner.close does."""
        left = {}
        for host in self.hosts:
            left.update(host.close())
        self._drop()
        return left


class Capture:
    """Traffic of a host's interface during a `with`, RoCE's unless `selects` says otherwise; afterwards a
    file, `path`. All of it, or an error, if it is to be `complete`; then the traffic has to end by itself.
    """

    def __init__(self, host, path=None, complete=True, selects='udp port 4791'):
        self.host = host
        self.selects = selects
        self.complete = complete
        self._directory = None
        if path is None:
            self._directory = tempfile.TemporaryDirectory()
            path = pathlib.Path(self._directory.name, 'capture.pcap')
        self.path = pathlib.Path(path)

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable('tcpdump in a user namespace fails to give up its rights')
        # --immediate-mode and -U: what was captured is in the file at once, nothing waits in a
        # buffer. The shell opens the file: tcpdump would want to give it to another user. It does not wait for
        # a processor behind programs that poll, where the system permits that: the kernel would drop packets.
        self._program = self.host.start_plain(
            'sh', '-c',
            'first=; chrt -f 1 true 2>/dev/null && first="chrt -f 1"; exec $first tcpdump "$@" -w - >"$0"', self.path,
            '-i', self.host.interface, '-s', '4400', '-B', '131072', '-U', '--immediate-mode', '-Z', 'root', '-n',
            self.selects)
        self._program.wait_for('listening on')
        return self

    def __exit__(self, kind, *_):
        size = -1

        def settled():
            nonlocal size
            before, size = size, self.path.stat().st_size
            return before == size
        while self.complete and not settled():
            self._program.wait(0.2)
        self._program.signal(2)
        self._program.wait(10)
        output = self._program.output()
        self.host.release(self._program)
        if kind is not None:
            self._tell()
        elif self.complete:
            dropped = re.search(r'(\d+) packets? dropped by kernel', output)
            assert dropped, output
            assert dropped[1] == '0', f'the capture is not complete: {output}'

    def _tell(self):
        """Prints the last packets before a failure; pytest shows them with it."""
        shown = subprocess.run(['tshark', '-n', '-t', 'r', '-r', self.path], text=True,
                               capture_output=True, timeout=30, check=False)
        print(f'the last packets of {self.host.interface}:',
              *shown.stdout.splitlines()[-60:], sep='\n')

    def close(self):
        if self._directory:
            self._directory.cleanup()
