# SPDX-License-Identifier: BSD-2-Clause
"""Verbatim, Linux's soft-RoCE (rxe) and software iWARP (siw) side by side, all of them in one guest:
figures from there compare with nothing else. Part of `make bench`.

Over each of two ways, the same for all of them:
  - a cable: both ends of a veth pair in one network namespace (rxe knows no other), and routes that
    lead from one to the other through it. VERBATIM_PATH=wire keeps Verbatim's ends from meeting
    through memory.
  - one interface, whose both ends one device is. rxe then hands packets over within the kernel, siw
    uses TCP's loopback, Verbatim shared memory; beside it what Verbatim's packets do through UDP.
Verbatim's iWARP is beside siw: by TCP as siw's, and on one interface by shared memory, too.
"""
import contextlib
import shutil
import statistics
import sys

import measure
from bench_network import FAILURES, reason
from measure import harness
import guest as guests  # beside harness

KI = 1 << 10
RUNS_MAX = 2  # a guest without hardware's help is slow, and the marks there are far from what is measured
PLACE = '/share/verbatim'

# what is measured, its column, by whom it is to be exceeded
ROWS = [
    ('ib_write_bw', ['-s', 64 * KI, '-n', 300], 'MiB/s', ('rxe', 'siw')),
    ('ib_send_bw', ['-s', 64 * KI, '-n', 300], 'MiB/s', ('rxe', 'siw')),
    ('ib_read_bw', ['-s', 64 * KI, '-n', 300, '-o', 16], 'MiB/s', ('rxe', 'siw')),
    ('ib_send_lat', ['-s', 8, '-n', 2000], 'us', ('rxe',)),
]

# Both ends in one script, each on a processor of its own: the second starts when the first listens.
PAIR = '''
rdev none
%(before)s
port=%(port)d
%(run)s timeout 60 taskset -c 0 %(wrap)s %(program)s -p $port %(server)s %(options)s \
    >/tmp/server.log 2>&1 &
for i in $(seq 200); do
    cat /proc/net/tcp /proc/net/tcp6 | grep -q ":$(printf %%04X $port) .* 0A " && break
    [ -n "%(blind)s" ] && [ $i -gt 15 ] && break
    sleep 0.1
done
%(run)s timeout 60 taskset -c 1 %(wrap)s %(program)s -p $port %(client)s %(options)s %(address)s || {
    cat /tmp/server.log; exit 1; }
wait
'''

# Loaded, rxe has UDP port 4791 on all addresses, whether there is a device or not.
VERBATIM = dict(before='rmmod rdma_rxe 2>/dev/null', run='', blind='',
                wrap=f'{PLACE}/usr/local/bin/verbatim run --')
PLAIN = dict(run='', wrap='', blind='')
UDP = 'env VERBATIM_PATH=wire'
IWARP = 'env VERBATIM_TRANSPORT=iwarp'
TCP = f'{IWARP} VERBATIM_PATH=wire'

CABLE = 'across a cable (veth)'
WAYS = {
    CABLE: {
        'Verbatim': dict(VERBATIM, run=UDP, server='-d vrb_n1 -x 0', client='-d vrb_n0 -x 0',
                         address='10.79.0.2'),
        'rxe': dict(PLAIN, before='modprobe rdma_rxe; rdma link add rxe0 type rxe netdev n0; '
                                  'rdma link add rxe1 type rxe netdev n1',
                    server='-d rxe1 -x 1', client='-d rxe0 -x 1', address='10.79.0.2'),
        'siw': dict(PLAIN, before='rdma link add siw0 type siw netdev n0; '
                                  'rdma link add siw1 type siw netdev n1',
                    server='-d siw1 -R', client='-d siw0 -R', address='10.79.0.2',
                    blind='rdma_cm'),
        'iWARP, TCP': dict(VERBATIM, run=TCP, server='-R', client='-R', address='10.79.0.2'),
    },
    'on one interface': {
        'Verbatim': dict(VERBATIM, server='-d vrb_eth0 -x 0', client='-d vrb_eth0 -x 0',
                         address=guests.Guest.address),
        'Verbatim, UDP': dict(VERBATIM, run=UDP, server='-d vrb_eth0 -x 0',
                              client='-d vrb_eth0 -x 0', address=guests.Guest.address),
        'rxe': dict(PLAIN, before='modprobe rdma_rxe; rdev rxe', server='-d rxe0 -x 1',
                    client='-d rxe0 -x 1', address=guests.Guest.address),
        'siw': dict(PLAIN, before='rdev siw', server='-d siw0 -R', client='-d siw0 -R',
                    address=guests.Guest.address, blind='rdma_cm'),
        'iWARP, TCP': dict(VERBATIM, run=TCP, server='-R', client='-R', address=guests.Guest.address),
        'iWARP': dict(VERBATIM, run=IWARP, server='-R', client='-R', address=guests.Guest.address),
    },
}

# What this host sends (iif lo) to an address of its own goes through the cable; what comes out of it
# is delivered as ever. /sbin/ip: a shell of busybox would take its own.
SET_UP = '''
/sbin/ip link add n0 mtu $MTU type veth peer name n1 mtu $MTU
for n in all n0 n1; do
    echo 0 >/proc/sys/net/ipv4/conf/$n/rp_filter
    echo 1 >/proc/sys/net/ipv4/conf/$n/accept_local
    echo 1 >/proc/sys/net/ipv6/conf/$n/disable_ipv6
done
/sbin/ip rule add pref 100 lookup local
/sbin/ip rule del pref 0
join() { # FROM DEVICE TO DEVICE TABLE
    /sbin/ip addr add $1/32 dev $2
    /sbin/ip link set $2 up
    /sbin/ip rule add pref $5 iif lo to $3 lookup $5
    /sbin/ip route add $3 dev $2 src $1 table $5
    /sbin/ip neigh replace $3 lladdr $(cat /sys/class/net/$4/address) dev $2 nud permanent
}
/sbin/ip link set n1 up
join 10.79.0.1 n0 10.79.0.2 n1 10
join 10.79.0.2 n1 10.79.0.1 n0 11
'''


def install(guest):
    """An installed copy of this build, and what it needs, where the guest finds them."""
    guest.install()
    shutil.copy(measure.BENCH / 'udp_pingpong', guest.share)
    guest.insert('drivers/net/veth.ko')
    guest.run(SET_UP)


def measured(guest, how, program, options, unit):
    words = dict(how, program=program, port=harness.free_port(),
                 options='-F ' + ' '.join(map(str, options)))
    row = measure.table_row(guest.run(PAIR % words, seconds=90))
    return float(row[3 if unit == 'MiB/s' else 4])


# What a program can do by sockets at all, over the cable: the ends wait for packets only.
UDP_PING_PONG = '''
rdev none
taskset -c 0 /share/udp_pingpong server spin 5000 10.79.0.2 %(packets)s >/dev/null 2>&1 &
sleep 1
taskset -c 1 /share/udp_pingpong client spin 5000 10.79.0.1 10.79.0.2 %(packets)s
'''
FLOORS = {'UDP alone 8 B': '', 'UDP alone, packets as of ib_send_lat': 'packets'}


def floor_row(guest, runs, packets):
    """One way of a datagram, or of such packets, between two programs that do nothing else."""
    values = [float(guest.run(UDP_PING_PONG % {'packets': packets}, seconds=90)) / 1000
              for _ in range(runs)]
    return f'{statistics.median(values):.1f} us'


def row_of(guest, kinds, runs, program, options, unit, rivals):
    """The cells behind the name."""
    seen = {kind: [] for kind in kinds}
    for _ in range(runs):
        for kind, how in kinds.items():
            seen[kind].append(measured(guest, how, program, options, unit))
    print({kind: values for kind, values in seen.items()}, file=sys.stderr)
    medians = {kind: statistics.median(values) for kind, values in seen.items()}
    pairs = [('Verbatim', rival) for rival in rivals]
    if unit == 'MiB/s':
        pairs.append(('iWARP, TCP', 'siw'))
    elif 'iWARP' in kinds:
        pairs.append(('iWARP', 'siw'))
    sign = 1 if unit == 'MiB/s' else -1
    behind = [f'{ours}: {rival}' for ours, rival in pairs if sign * medians[ours] <= sign * medians[rival]]
    return (*(f'{medians[kind]:.1f} {unit}' for kind in kinds),
            f'ahead of {" and ".join(rivals)}, by iWARP of siw', f'missed ({", ".join(behind)})' if behind else 'met')


def rows_of(guest, way, kinds, runs, chosen):
    """(cells, whether it failed) of each row of one table."""
    todo = [(f'{program} {"64 KiB" if unit == "MiB/s" else "8 B"}',
             lambda p=program, o=options, u=unit, r=rivals: row_of(guest, kinds, runs, p, o, u, r))
            for program, options, unit, rivals in chosen]
    if way == CABLE and chosen[-1][2] == 'us':
        todo += [(name, lambda p=packets: (floor_row(guest, runs, p), *[''] * (len(kinds) + 1)))
                 for name, packets in FLOORS.items()]
    for name, row in todo:
        print(f'guest, {way}, {name} ...', file=sys.stderr)
        try:
            yield (name, *row()), False
        except FAILURES as error:
            print(error, file=sys.stderr)
            yield (name, 'FAILED', *[''] * len(kinds), reason(error)), True


def print_way(guest, way, kinds, runs, chosen):
    """Prints one table, whatever becomes of some rows; how many failed."""
    rows, failures = [], 0
    try:
        for cells, failed in rows_of(guest, way, kinds, runs, chosen):
            rows.append(cells)
            failures += failed
    finally:
        print(f'\nIn a guest (QEMU, software emulation), MTU 1500, {way}, medians of {runs} '
              f'runs:\n')
        measure.print_table(('what', *kinds, 'target', ''), rows)
    return failures


def run(runs, wanted, clock):
    """Prints the tables of the rows that are wanted; how many failed."""
    runs, failures = min(runs, RUNS_MAX), 0
    chosen = {way: [row for row in ROWS if wanted(f'guest, {way}, {row[0]}')] for way in WAYS}
    if not any(chosen.values()):
        return 0
    try:
        with contextlib.ExitStack() as stack:
            with clock.section('guest, its start'):
                guests.build()
                guest = stack.enter_context(guests.Guest(1500))
                install(guest)
            for way, kinds in WAYS.items():
                if chosen[way]:
                    with clock.section(f'guest, {way}'):
                        failures += print_way(guest, way, kinds, runs, chosen[way])
    except guests.Unavailable as error:
        print(f'\nIn a guest: not measured: {error}')
    except FAILURES as error:
        failures += 1
        print(f'\nIn a guest: FAILED: {error}')
    return failures
