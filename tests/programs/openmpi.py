# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI by UCX: pml ucx, osc ucx."""
import os
import tempfile

import mpi
import rows

# UCX would take shared memory of its own between ranks of a host, and Open MPI refuses more ranks than cores.
ENV = {'UCX_TLS': 'rc_v,self', 'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
OPTIONS = ('--oversubscribe', '--bind-to', 'none', '--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', '-x', 'UCX_TLS')


def ring(ranks, transports):
    def run(a, b):
        program = mpi.compiled('mpicc.openmpi')
        with tempfile.TemporaryDirectory() as directory:
            # Ranks are told from each other by the addresses of their hosts, not by names.
            hosts = ()
            if a is not b:
                each = ranks // 2
                agent = mpi.reach(directory, b, 'b')
                hosts = ('--host', f'{a.address}:{each},{b.address}:{each}', '--mca', 'plm_rsh_agent', agent,
                         '--mca', 'oob_tcp_if_include', a.interface, '--mca', 'oob', 'tcp')
            mpirun = a.start('mpirun.openmpi', *OPTIONS, *hosts, '-n', ranks, program,
                             env={**ENV, 'UCX_TLS': transports, 'TMPDIR': os.environ.get('TMPDIR', '/tmp')})
            try:
                mpi.check_run(mpirun, ranks, 40)
            finally:
                a.release(mpirun)
    return run


for number in (2, 4, 8):
    rows.row('Open MPI', f'{number} ranks by UCX rc_v', 'openmpi-bin', seconds=60)(ring(number, 'rc_v,self'))
rows.row('Open MPI', '4 ranks by UCX ud_v', 'openmpi-bin', seconds=60)(ring(4, 'ud_v,self'))
