# SPDX-License-Identifier: BSD-2-Clause
"""MPICH, whose device is ch4:ucx in Debian."""
import tempfile

import mpi
import rows


def ring(ranks, transports):
    def run(a, b):
        program = mpi.compiled('mpicc.mpich')
        with tempfile.TemporaryDirectory() as directory:
            hosts = ()
            if a is not b:
                each = ranks // 2
                agent = mpi.reach(directory, b, 'b')
                hosts = ('-hosts', f'{a.address}:{each},{b.address}:{each}', '-launcher', 'ssh',
                         '-launcher-exec', agent, '-iface', a.interface)
            # MPICH's own shared memory between ranks of a host is left aside.
            mpirun = a.start('mpiexec.mpich', *hosts, '-n', ranks, '-genv', 'UCX_TLS', transports, program,
                             env={'MPIR_CVAR_NOLOCAL': '1', 'UCX_TLS': transports})
            try:
                mpi.check_run(mpirun, ranks, 40)
            finally:
                a.release(mpirun)
    return run


for number in (2, 4, 8):
    rows.row('MPICH', f'{number} ranks by UCX rc_v', seconds=60, package='mpich')(ring(number, 'rc_v,self'))
rows.row('MPICH', '4 ranks by UCX ud_v', package='mpich', seconds=60)(ring(4, 'ud_v,self'))
