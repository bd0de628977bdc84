# SPDX-License-Identifier: BSD-2-Clause
"""MPICH, whose device is ch4:ucx in Debian."""
import mpi
import rows

WINDOW = rows.Known(
    'BAD put',
    'MPICH 4.0 takes the base of a window of `MPI_Win_allocate` that is shared memory of its own from `ucp_mem_query`, '
    'which from UCX 1.13 on is rounded to what UCX aligns to: small windows of ranks on one host lie on each other. '
    'It fails without Verbatim and without any device, too (`mpiexec.mpich -n 4`), and newer ones have the repair '
    '("ch4/ucx: Only set window base pointer when allocating", pull request 6140 of MPICH). With `MPIR_CVAR_NOLOCAL=1` '
    'it holds.', until='4.1')
DISCONNECT = rows.Known(
    's after the last call',
    'In MPICH 4.2 no rank waits for others before it ends (pull request 6596, "remove MPIR_pmi_barrier in finalize"). '
    'One that has yet to disconnect sends to QPs that are gone, and UCX waits until its retries are spent: half a minute. '
    'Newer ones wait again: "if some process are not present, the disconnect may timeout and give errors" '
    '(`MPIDI_UCX_mpi_finalize_hook`).', since='4.2', until='4.3.1', always=False)


def start(a, b, words, ranks, transports, agent):
    hosts = ()
    if agent:
        each = ranks // 2
        hosts = ('-hosts', f'{a.address}:{each},{b.address}:{each}', '-launcher', 'ssh', '-launcher-exec', agent,
                 '-iface', a.interface)
    # MPICH's own shared memory between ranks of a host is left aside, as UCX's is.
    chosen = ('-genv', 'UCX_TLS', transports, '-genv', 'MPIR_CVAR_NOLOCAL', '1') if transports else ()
    return a.start('mpiexec.mpich', *hosts, '-n', ranks, *chosen, *words)


mpi.add_rows('MPICH', 'mpich', 'mpicc.mpich', start, (DISCONNECT,), (WINDOW,))
