"""Verbatim, Linux's soft-RoCE (rxe) and software iWARP (siw) side by side, all of them in one guest:
figures from there compare with nothing else. Part of `make bench`.

rxe and siw talk with themselves, which their kernel module shortens; Verbatim's two ends are in two
network namespaces joined by veth, so that they cannot meet through memory.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import measure
from measure import harness
import guest as guests  # beside harness

KI = 1 << 10
RUNS_MAX = 3  # a guest without hardware's help is slow
PLACE = '/share/verbatim'
SYSTEM_LIBRARIES = '/usr/lib/x86_64-linux-gnu'

# what is measured, its column, by whom it is to be exceeded
ROWS = [
    ('ib_write_bw', ['-s', 64 * KI, '-n', 300], 'MiB/s', ('rxe', 'siw')),
    ('ib_send_bw', ['-s', 64 * KI, '-n', 300], 'MiB/s', ('rxe', 'siw')),
    ('ib_read_bw', ['-s', 64 * KI, '-n', 300, '-o', 16], 'MiB/s', ('rxe', 'siw')),
    ('ib_send_lat', ['-s', 8, '-n', 2000], 'us', ('rxe',)),
]

# Both ends in one script: the second one starts when the first listens.
PAIR = '''
%(before)s
port=%(port)d
%(server)s timeout 60 taskset -c 0 %(run)s %(program)s -p $port %(options)s >/tmp/server.log 2>&1 &
for i in $(seq 200); do
    %(server)s cat /proc/net/tcp /proc/net/tcp6 | grep -q ":$(printf %%04X $port) .* 0A " && break
    [ -n "%(blind)s" ] && [ $i -gt 15 ] && break
    sleep 0.1
done
%(client)s timeout 60 taskset -c 1 %(run)s %(program)s -p $port %(options)s %(address)s || {
    cat /tmp/server.log; exit 1; }
wait
'''

KINDS = {
    'Verbatim': dict(before='rdev none', server='/sbin/ip netns exec b', client='/sbin/ip netns exec a',
                     run=f'{PLACE}/usr/local/bin/verbatim run --', options='-d vrb_n0 -x 0',
                     address='10.79.0.2', blind=''),
    'rxe': dict(before='rdev rxe', server='', client='', run='', options='-d rxe0 -x 1',
                address=guests.Guest.address, blind=''),
    'siw': dict(before='rdev siw', server='', client='', run='', options='-d siw0 -R',
                address=guests.Guest.address, blind='rdma_cm'),
}

# /sbin/ip: a shell of busybox would take its own.
SET_UP = f'''
cp /share/libraries/* {SYSTEM_LIBRARIES}/
insmod /share/veth.ko
mkdir -p /run/netns
/sbin/ip netns add a && /sbin/ip netns add b
/sbin/ip -n a link add n0 mtu $MTU type veth peer name n0 mtu $MTU netns b
/sbin/ip -n a addr add 10.79.0.1/24 dev n0 && /sbin/ip -n b addr add 10.79.0.2/24 dev n0
for n in a b; do /sbin/ip -n $n link set lo up; /sbin/ip -n $n link set n0 up; done
'''


def libraries(place):
    """What our programs need of the system and the guest may not have."""
    found = set()
    for path in place.rglob('*'):
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK):
            output = subprocess.run(['ldd', path], capture_output=True, text=True,
                                    check=False).stdout
            found |= set(re.findall(rf'=> ((?:/usr)?/lib/\S+)', output))
    return {path for path in found if not re.search(r'/(libc|ld-linux\S*|libm)\.so', path)}


def install(guest):
    """An installed copy of this build, and what it needs, where the guest finds them."""
    place = guest.share / 'verbatim'
    subprocess.run(['meson', 'install', '-C', harness.BUILD, '--no-rebuild', '--quiet',
                    '--destdir', place], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    (guest.share / 'libraries').mkdir()
    for path in libraries(place):
        shutil.copy(path, guest.share / 'libraries')
    modules = sorted(pathlib.Path(guests.IMAGE).glob(
        'kernel/lib/modules/*/kernel/drivers/net/veth.ko'))
    assert modules, 'the image of the guest has no veth module'
    shutil.copy(modules[-1], guest.share)
    guest.run(SET_UP)


def measured(guest, kind, program, options, unit):
    words = dict(KINDS[kind], program=program, port=harness.free_port())
    words['options'] += ' -F ' + ' '.join(map(str, options))
    row = measure.table_row(guest.run(PAIR % words, seconds=90))
    return float(row[3 if unit == 'MiB/s' else 4])


def row_of(guest, runs, program, options, unit, rivals):
    """The cells behind the name."""
    seen = {kind: [] for kind in KINDS}
    for _ in range(runs):
        for kind, values in seen.items():
            values.append(measured(guest, kind, program, options, unit))
    medians = {kind: statistics.median(values) for kind, values in seen.items()}
    better = max if unit == 'MiB/s' else min
    ahead = all(better(medians['Verbatim'], medians[rival]) == medians['Verbatim']
                and medians['Verbatim'] != medians[rival] for rival in rivals)
    return (*(f'{medians[kind]:.1f} {unit}' for kind in KINDS),
            f'ahead of {" and ".join(rivals)}', 'met' if ahead else 'missed')


def run(runs, wanted):
    """Prints the table of the rows that are wanted; how many failed."""
    runs, failures, rows = min(runs, RUNS_MAX), 0, []
    chosen = [row for row in ROWS if wanted(f'guest, {row[0]}')]
    if not chosen:
        return 0
    try:
        guests.build()
    except guests.Unavailable as reason:
        print(f'\nIn a guest: not measured: {reason}')
        return 0
    with guests.Guest(1500) as guest:
        install(guest)
        for program, options, unit, rivals in chosen:
            print(f'guest, {program} ...', file=sys.stderr)
            name = f'{program} {"64 KiB" if unit == "MiB/s" else "8 B"}'
            try:
                rows.append((name, *row_of(guest, runs, program, options, unit, rivals)))
            except AssertionError as error:
                failures += 1
                print(error, file=sys.stderr)
                rows.append((name, 'FAILED', *[''] * (len(KINDS) + 1)))
    print(f'\nIn a guest (QEMU, software emulation), MTU 1500, medians of {runs} runs:\n')
    measure.print_table(('what', *KINDS, 'target', ''), rows)
    return failures
