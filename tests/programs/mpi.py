# SPDX-License-Identifier: BSD-2-Clause
"""What Open MPI and MPICH have in common: mpi.c, and how its output is read."""
import os
import pathlib
import re
import tempfile
import time

import compiled
import rows

MESSAGES = ('ring', 'alltoall', 'allreduce')
CASES = (*MESSAGES, 'put', 'get', 'fetch_and_op')
SECONDS = 80  # ranks that poll have few processors, and may have them beside others
SECONDS_TO_END = 2  # after the last call
RANKS = (2, 4, 8)
LINGER_MS = 10000  # of the verbatimd that has counted packets; the row stops it
UCX_CHOOSES, NOTHING = '', None  # instead of a list of transports
ALL = 'all'  # a list that has what UCX has by default


def reach(directory, host, name):
    """A program that runs `NAME COMMAND...` as ssh does, on the other host."""
    script = pathlib.Path(directory, 'rsh')
    words = ' '.join(f"'{word}'" for word in host.prefix)
    variables = ' '.join(f"{key}='{value}'" for key, value in host.env.items() if key.startswith('VERBATIM'))
    # A host name of its own, by which the programs tell hosts apart, and no IPC namespace that both hosts see: UCX takes
    # peers that share it for peers on one host.
    script.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\n'
                      f'exec {words} env {variables} unshare --uts --ipc sh -c '
                      f'\'hostname {name}; exec {host.verbatim} run -- sh -c "$*"\' sh "$@"\n', encoding='ascii')
    os.chmod(script, 0o755)
    return script


def check_run(program, ranks, names, seconds):
    """All these cases of mpi.c were right, and mpirun has ended soon after."""
    output = program.finish(seconds)
    ended = time.monotonic()
    for case in names:
        rows.check(f'ok {case} of {ranks}' in output, program.report())
    last = float(re.search(r'last call at ([\d.]+)', output)[1])
    rows.check(ended - last < SECONDS_TO_END, f'ended {ended - last:.2f} s after the last call', program.report())


def packets_sent(host):
    """Of the device, to other hosts, since its verbatimd began."""
    return int(host.run('cat', f'/sys/class/infiniband/{host.device}/ports/1/counters/port_xmit_packets'))


def cases(start, compiler, ranks, transports, names=CASES):
    """A row's function. start(a, b, words, ranks, transports, agent) begins mpirun with these words; UCX has these
    transports, or its own choice of all if they are UCX_CHOOSES, and nothing is chosen if they are NOTHING. With an
    `agent`, which runs commands on b as ssh does, half of the ranks are there.
    """
    def run(a, b):
        with tempfile.TemporaryDirectory() as directory:
            program = compiled.program(f'mpi-{compiler}', compiler, 'mpi.c')
            agent = None if a is b else reach(directory, b, 'b')
            a.env['VERBATIMD_LINGER_MS'] = str(LINGER_MS)
            mpirun = start(a, b, (program, *names), ranks, transports, agent)
            try:
                check_run(mpirun, ranks, names, SECONDS)
                if transports in (UCX_CHOOSES, ALL):
                    sent = packets_sent(a)
                    rows.check(sent > 1000, f'{sent} packets: it went another way')
            finally:
                a.release(mpirun)
                a.stop_daemons()
    return run


def add_rows(name, package, compiler, start, known=(), shared=(), rc=()):
    """`known`: failures of all of them. `shared`: of put and get by shared memory of its own, between ranks of a host.
    `rc`: of rc_v.
    """
    def add(text, ranks, transports, names=CASES, where=(rows.ONE, rows.TWO), failures=known):
        rows.row(name, text, package, where, SECONDS + 20, known=dict.fromkeys(where, failures))(
            cases(start, compiler, ranks, transports, names))

    for transport in ('rc_v', 'ud_v'):
        for ranks in RANKS:
            add(f'{ranks} ranks by UCX {transport}', ranks, f'{transport},self',
                failures=(*rc, *known) if transport == 'rc_v' else known)
    # By shared memory of its own on one host, if it likes: what is looked at is that the device does it no harm.
    for ranks, transports, where in (*((ranks, UCX_CHOOSES, rows.TWO) for ranks in RANKS), (4, NOTHING, rows.ONE)):
        text = f'{ranks} ranks' + (', nothing chosen' if transports is NOTHING else ' by UCX as it chooses')
        alone = ranks == 2  # on its host
        add(text, ranks, transports, where=(where,), failures=known if alone else (*shared, *known))
        if shared and not alone:
            add(f'{text}: {", ".join(MESSAGES)}', ranks, transports, MESSAGES, (where,))
    if shared:
        for ranks in RANKS[1:]:
            add(f'{ranks} ranks by UCX as it chooses, MPIR_CVAR_NOLOCAL', ranks, ALL, where=(rows.TWO,))
