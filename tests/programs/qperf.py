# SPDX-License-Identifier: BSD-2-Clause
"""qperf: all its tests of RDMA. Those that are named ver_ compare.

Without -cm it connects by LID, with no GID, so its tests need an InfiniBand device; with it, it has RC alone.
"""
import harness
import rows

TESTS = {
    'RC': ('rc_bi_bw', 'rc_bw', 'rc_lat', 'rc_rdma_read_bw', 'rc_rdma_read_lat', 'rc_rdma_write_bw',
           'rc_rdma_write_lat', 'rc_rdma_write_poll_lat'),
    'RC atomics': ('rc_compare_swap_mr', 'rc_fetch_add_mr', 'ver_rc_compare_swap', 'ver_rc_fetch_add'),
    'UC': ('uc_bi_bw', 'uc_bw', 'uc_lat', 'uc_rdma_write_bw', 'uc_rdma_write_lat', 'uc_rdma_write_poll_lat'),
    'UD': ('ud_bi_bw', 'ud_bw', 'ud_lat'),
}


LIDS = {'VERBATIM_LINK_LAYER': 'infiniband'}


def tests(names, *options, env=None):
    def run(a, b):
        port = harness.free_port()
        server = a.start_server(['qperf', '-lp', port], port, env=env)
        try:
            for name in names:
                output = b.run('qperf', '-lp', port, '-t', '1', *options, a.address, name, seconds=20, env=env)
                rows.check('=' in output and 'failed' not in output, name, output, server.report())
        finally:
            a.release(server)
    return run


for kind, all_names in TESTS.items():
    rows.row('qperf', f'{len(all_names)} tests of {kind} by LID')(tests(all_names, env=LIDS))
rows.row('qperf', 'RC by rdma_cm')(tests(('rc_bw', 'rc_lat'), '-cm', '1'))
