# SPDX-License-Identifier: BSD-2-Clause
"""What Open MPI and MPICH have in common: mpi.c, and how its output is read."""
import os
import pathlib
import re
import tempfile
import time

import compiled
import rows

CASES = ('ring', 'alltoall', 'allreduce', 'put', 'get', 'fetch_and_op')
SECONDS_TO_END = 2  # after the last call


def reach(directory, host, name):
    """A program that runs `NAME COMMAND...` as ssh does, on the other host."""
    script = pathlib.Path(directory, 'rsh')
    words = ' '.join(f"'{word}'" for word in host.prefix)
    variables = ' '.join(f"{key}='{value}'" for key, value in host.env.items() if key.startswith('VERBATIM'))
    # A host name of its own: by it the programs tell hosts apart.
    script.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\n'
                      f'exec {words} env {variables} unshare --uts sh -c '
                      f'\'hostname {name}; exec {host.verbatim} run -- sh -c "$*"\' sh "$@"\n', encoding='ascii')
    os.chmod(script, 0o755)
    return script


def check_run(program, ranks, seconds):
    """All cases of mpi.c were right, and mpirun has ended soon after."""
    output = program.finish(seconds)
    ended = time.monotonic()
    for case in CASES:
        rows.check(f'ok {case} of {ranks}' in output, program.report())
    last = float(re.search(r'last call at ([\d.]+)', output)[1])
    rows.check(ended - last < SECONDS_TO_END, f'ended {ended - last:.2f} s after the last call', program.report())


def packets_sent(host):
    """Of the device, to other hosts, since its verbatimd began."""
    return int(host.run('cat', f'/sys/class/infiniband/{host.device}/ports/1/counters/port_xmit_packets'))


def add_rows(name, package, compiler, start):
    """start(a, b, program, ranks, transports, agent) begins mpirun; UCX has these transports, or its own choice of all
    if there are none. With an `agent`, which runs commands on b as ssh does, half of the ranks are there.
    """
    def cases(ranks, transports):
        def run(a, b):
            with tempfile.TemporaryDirectory() as directory:
                program = compiled.program(f'mpi-{compiler}', compiler, 'mpi.c')
                agent = None if a is b else reach(directory, b, 'b')
                mpirun = start(a, b, program, ranks, transports, agent)
                try:
                    check_run(mpirun, ranks, 40)
                finally:
                    a.release(mpirun)
                if not transports:
                    sent = packets_sent(a)
                    rows.check(sent > 1000, f'{sent} packets: it went another way')
        return run

    for ranks, transport in ((2, 'rc_v'), (4, 'rc_v'), (8, 'rc_v'), (4, 'ud_v')):
        rows.row(name, f'{ranks} ranks by UCX {transport}', package, seconds=60)(cases(ranks, f'{transport},self'))
    rows.row(name, '2 ranks by UCX as it chooses', package, where=(rows.TWO,), seconds=60)(cases(2, None))
