# SPDX-License-Identifier: BSD-2-Clause
"""MPICH, whose device is ch4:ucx in Debian."""
import mpi


def start(a, b, program, ranks, transports, agent):
    hosts = ()
    if agent:
        each = ranks // 2
        hosts = ('-hosts', f'{a.address}:{each},{b.address}:{each}', '-launcher', 'ssh', '-launcher-exec', agent,
                 '-iface', a.interface)
    # MPICH's own shared memory between ranks of a host is left aside, as UCX's is.
    chosen = ('-genv', 'UCX_TLS', transports, '-genv', 'MPIR_CVAR_NOLOCAL', '1') if transports else ()
    return a.start('mpiexec.mpich', *hosts, '-n', ranks, *chosen, program)


mpi.add_rows('MPICH', 'mpich', 'mpicc.mpich', start)
