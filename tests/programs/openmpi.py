# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI by UCX: pml ucx, osc ucx."""
import os

import mpi
import rows

# Open MPI refuses to run for root, and more ranks than cores.
ENV = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
DEMANDED = ('--oversubscribe',)
UCX = ('--bind-to', 'none', '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx')

FLUSH = rows.Known(
    r'^AssertionError: (not ended|ended)[\s\S]*flush\(remote\) is not supported',
    'Open MPI 5 has UCX flush what it has put, and UCX 1.18 then asks for a "flush(remote)", which its transport '
    '`rc_verbs` has for mlx5 alone (`uct_ib_verbs_md_open` leaves `flush_rkey` invalid, `uct_rc_verbs_ep_flush` refuses). '
    'It says so each time, some thousand times a second; results are right, but on a busy machine 8 ranks may be late.',
    since='5.0', always=False)


def start(a, b, words, ranks, transports, agent):
    # Ranks are told from each other by the addresses of their hosts, not by names.
    hosts = ()
    if agent:
        each = ranks // 2
        hosts = ('--host', f'{a.address}:{each},{b.address}:{each}', '--mca', 'plm_rsh_agent', agent,
                 '--mca', 'oob_tcp_if_include', a.interface, '--mca', 'oob', 'tcp')
    chosen = () if transports is mpi.NOTHING else UCX
    if transports:
        chosen += ('-x', f'UCX_TLS={transports}')
    return a.start('mpirun.openmpi', *DEMANDED, *chosen, *hosts, '-n', ranks, *words,
                   env={**ENV, 'TMPDIR': os.environ.get('TMPDIR', '/tmp')})


mpi.add_rows('Open MPI', 'openmpi-bin', 'mpicc.openmpi', start, rc=(FLUSH,))
