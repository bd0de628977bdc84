# SPDX-License-Identifier: BSD-2-Clause
"""Programs that look into /sys/class/infiniband and /dev/infiniband, in `verbatim run`."""
import ipaddress
import os
import re
import subprocess

import pytest

from harness import BUILD, DEVICE, HOST, VERBATIM, free_port, wait_until

CLASS = '/sys/class/infiniband'
PORT = f'{CLASS}/{DEVICE}/ports/1'

pytestmark = pytest.mark.skipif(
    os.path.isdir(CLASS), reason='this host has RDMA devices of its own to look at')


def cat(runner, *paths, **options):
    return runner.run('cat', *paths, **options).splitlines()


def devinfo(runner, **options):
    """{name: value} of ibv_devinfo -v."""
    found = {}
    for line in runner.run('ibv_devinfo', '-v', '-d', DEVICE, **options).splitlines():
        name, colon, value = line.strip().partition(':')
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


@pytest.mark.asan
@pytest.mark.parametrize('layer', ['ethernet', 'infiniband'])
def test_files_agree_with_verbs(runner, layer):
    """Both name the same GUIDs, states, GIDs."""
    env = {'VERBATIM_LINK_LAYER': layer}
    verbs = devinfo(runner, env=env)
    assert cat(runner, *(f'{CLASS}/{DEVICE}/{name}' for name in (
        'node_guid', 'sys_image_guid', 'fw_ver', 'board_id')), env=env) == [
            verbs['node_guid'], verbs['sys_image_guid'], verbs['fw_ver'], verbs['board_id']]
    (revision,) = cat(runner, f'{CLASS}/{DEVICE}/hw_rev')
    assert int(revision, 16) == int(verbs['hw_ver'], 16)
    state, physical, link, lid, sm_lid, mask, pkey, kind, rate = cat(runner, *(
        f'{PORT}/{name}' for name in ('state', 'phys_state', 'link_layer', 'lid', 'sm_lid', 'cap_mask',
                                      'pkeys/0', 'gid_attrs/types/0', 'rate')), env=env)
    assert verbs['state'] == f'PORT_{state.split()[1]} ({state[0]})'
    assert verbs['phys_state'].endswith(f'({physical[0]})')
    assert verbs['link_layer'] == link and link.lower() == layer
    assert int(verbs['port_lid']) == int(lid, 16)
    assert int(verbs['sm_lid']) == int(sm_lid, 16)
    assert verbs['port_cap_flags'] == mask
    assert pkey == '0xffff'
    width, speed = verbs['active_width'].split('X')[0], verbs['active_speed'].split()[0]
    assert int(rate.split()[0]) == round(int(width) * float(speed))
    gids = cat(runner, *(f'{PORT}/gids/{index}' for index in range(int(verbs['gid_tbl_len']))), env=env)
    if layer == 'ethernet':
        assert verbs['GID[  0]'].endswith(kind)
        assert gids[0] == '0000:0000:0000:0000:0000:ffff:7f00:0001'
    else:
        assert verbs['GID[  0]'].startswith(gids[0])


def test_devices_are_in_the_order_of_verbs(runner):
    env = {'VERBATIM_DEVICES': None}
    listed = [line.strip() for line in runner.run('ibv_devinfo', '-l', env=env).splitlines()
              if line.startswith('\t')]
    verbs = runner.run('sh', '-c', 'cat /sys/class/infiniband_verbs/uverbs*/ibdev', env=env)
    assert verbs.split() == listed
    assert sorted(runner.run('ls', CLASS, env=env).split()) == sorted(listed)
    assert runner.run('ls', '/dev/infiniband', env=env).split() == [
        f'uverbs{number}' for number in range(len(listed))]
    assert runner.run('ls', CLASS, env={'VERBATIM_DEVICES': 'nonexistent'}) == ''


@pytest.mark.asan
def test_ibstat(runner):
    output = runner.run('ibstat', DEVICE)
    guid = devinfo(runner)['node_guid'].replace(':', '')
    assert f"CA '{DEVICE}'" in output
    for line in ('CA type: Verbatim', f'Node GUID: 0x{guid}', 'State: Active',
                 'Physical state: LinkUp', 'Link layer: Ethernet'):
        assert line in output


def test_shell_tools(runner):
    """ls, find, grep, realpath, test: what scripts use; each a process of its own."""
    assert runner.run('ls', f'{CLASS}/{DEVICE}/device/net/').split() == ['lo']
    assert runner.run('cat', f'{CLASS}/{DEVICE}/device/net/lo/mtu') == '65536\n'
    assert runner.run('realpath', f'{CLASS}/{DEVICE}/device/net/lo') == \
        '/sys/devices/virtual/net/lo\n'
    assert runner.run('find', f'{CLASS}/', '-name', 'vrb_*', '-type', 'l') == f'{CLASS}/{DEVICE}\n'
    found = runner.run('find', '-L', f'{PORT}/gids', '-type', 'f').split()
    assert len(found) == 16
    assert runner.run('grep', '-rl', '7f00:0001', f'{PORT}/gids') == f'{PORT}/gids/0\n'
    # all the way down, without -L
    real = f'/sys/devices/verbatim/{DEVICE}'
    assert runner.run('find', real, '-name', 'lid') == f'{real}/infiniband/{DEVICE}/ports/1/lid\n'
    # the types of GIDs that are not there cannot be read
    assert runner.run('sh', '-c', f"grep -rlsx '4: ACTIVE' {CLASS}/{DEVICE}/ || :") == f'{CLASS}/{DEVICE}/ports/1/state\n'
    assert len(runner.run('ls', '-R', real).split(f'{real}')) > 10
    runner.run('sh', '-c', f'test -d {CLASS}/{DEVICE} && test -L {CLASS}/{DEVICE} && '
               'test -c /dev/infiniband/uverbs0 && test -r /dev/infiniband/../null')
    output = runner.run('ls', '-la', f'{CLASS}/', f'{CLASS}/{DEVICE}/')
    assert f'{DEVICE} -> ../../devices/verbatim/{DEVICE}/infiniband/{DEVICE}' in output
    assert 'No such file' not in output and 'cannot' not in output, output


# What show_gids of NVIDIA's mlnx-tools does, which Debian has not: a process for each file, those of empty GIDs too.
SHOW_GIDS = '''
for device in $(ls /sys/class/infiniband/); do
    for port in $(ls /sys/class/infiniband/$device/ports/); do
        at=/sys/class/infiniband/$device/ports/$port
        for index in $(ls $at/gids/); do
            gid=$(cat $at/gids/$index)
            [ "$gid" = 0000:0000:0000:0000:0000:0000:0000:0000 ] ||
                echo $device $port $index $gid $(cat $at/gid_attrs/ndevs/$index) $(cat $at/gid_attrs/types/$index)
        done
    done
done'''


def test_show_gids(runner):
    shown = [line.split(maxsplit=5) for line in runner.run('sh', '-c', SHOW_GIDS).splitlines()]
    assert [line for line in shown if line[4:] != ['lo', 'RoCE v2']] == []
    listed = runner.run('ibv_devinfo', '-v', '-d', DEVICE)
    gids = [(index, str(ipaddress.IPv6Address(gid).ipv4_mapped or ipaddress.IPv6Address(gid)))
            for device, port, index, gid, _, _ in shown if (device, port) == (DEVICE, '1')]
    assert gids == [(index, gid.removeprefix('::ffff:'))
                    for index, gid in re.findall(r'GID\[ *(\d+)\]:\s+(\S+), RoCE v2', listed)]
    assert ('0', HOST) in gids

ROUNDS = 200
BYTES = 4096
COUNTERS = ('counters/port_xmit_packets', 'counters/port_rcv_packets', 'counters/unicast_xmit_packets',
            'counters/port_xmit_data', 'counters/port_rcv_data', 'hw_counters/sent_pkts', 'hw_counters/rcvd_pkts')


def read_counters(runner, *names):
    """On a busy machine verbatimd may not answer within 0.2 s, and a file does not open: so these tests run alone."""
    output = runner.run('cat', *(f'{PORT}/{name}' for name in names))
    return [int(line) for line in output.splitlines()]


def ping(runner, **options):
    port = free_port()
    argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-n', ROUNDS, '-s', BYTES, '-p', port]
    runner.pair(argv, [*argv, HOST], port, **options)


@pytest.mark.alone
@pytest.mark.asan
def test_counters(fresh_runner):
    """They grow with packets, outlive the processes, and begin anew with the next verbatimd."""
    runner = fresh_runner(linger_ms=60000)

    def look():
        return read_counters(runner, *COUNTERS)

    assert look() == [0] * len(COUNTERS)
    ping(runner)  # through shared memory
    assert look() == [0] * len(COUNTERS)
    for turn in (1, 2):
        ping(runner, env={'VERBATIM_PATH': 'wire'})
        sent, received, unicast, sent_words, received_words, *hardware = look()
        assert sent >= received >= turn * 2 * ROUNDS * BYTES // 4096, (sent, received)
        assert sent_words >= received_words >= turn * 2 * ROUNDS * BYTES // 4, (sent_words, received_words)
        assert [sent, received] == hardware and unicast == sent
    size = runner.run('stat', '-L', '-c', '%s', f'{PORT}/counters/port_xmit_data')
    assert size == '4096\n'
    runner.stop_daemons()
    wait_until(lambda: not runner.daemons(), 10, 'verbatimd ends')
    assert look() == [0] * len(COUNTERS)


@pytest.mark.alone
def test_counters_of_loss(fresh_runner):
    """What is lost is sent again, and counts by the names of mlx5 and of soft-RoCE."""
    runner = fresh_runner(linger_ms=60000)
    # Its server is there until the client has all acknowledgements, also of what was lost. Ends of a pingpong are not.
    port = free_port()
    argv = ['ib_write_bw', '-d', DEVICE, '-F', '-s', 16384, '-m', 1024, '-n', 500, '-p', port]
    runner.pair(argv, [*argv, HOST], port, env={'VERBATIM_PATH': 'wire', 'VERBATIM_TEST_LOSS': '0.02'})
    names = ('packet_seq_err', 'rcvd_seq_err', 'out_of_sequence', 'out_of_seq_request', 'retry_exceeded_err')
    values = read_counters(runner, *(f'hw_counters/{name}' for name in names))
    assert values[0] == values[1] > 0 and values[2] == values[3] > 0 and values[4] == 0, values
    runner.stop_daemons()


def test_no_counters_of_rnics(runner):
    names = runner.run('ls', f'{CLASS}/vrbw_lo/ports/1', run=['--iwarp']).split()
    assert 'state' in names and not [name for name in names if 'counters' in name]


def test_no_sysfs(runner):
    output = runner.run('ls', CLASS, run=['--no-sysfs'], status=2)
    assert 'No such file or directory' in output
    assert 'preload' not in runner.run('env', run=['--no-sysfs'])
    assert devinfo(runner, run=['--no-sysfs'])['state'] == 'PORT_ACTIVE (4)'


def test_what_was_preloaded_stays(runner, tmp_path):
    other = tmp_path / 'other.so'
    subprocess.run(['cc', '-shared', '-o', other, '-x', 'c', '/dev/null'], check=True)
    output = runner.run('env', env={'LD_PRELOAD': other})
    assert re.search(rf'^LD_PRELOAD={other}:.*/libverbatim-sysfs\.so$', output, re.MULTILINE)


SANITIZED = r'''
#include <dirent.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	DIR *folder = opendir("/sys/class/infiniband");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	volatile char *bytes = malloc(4096);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, (void *)bytes, 4096, IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (*entry->d_name != '.')
			puts(entry->d_name);
	if (!folder || !mr)
		return 2;
	closedir(folder);
	if (argc > 1)
		bytes[4096] = 1;
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	free((void *)bytes);
	return 0;
}
'''


@pytest.mark.parametrize('compiler', ['gcc', 'clang'])
def test_a_program_with_a_sanitizer(runner, tmp_path, compiler):
    """gcc links libasan.so, which wants to be before all that is preloaded; clang puts it into the program."""
    if 'LD_PRELOAD' in os.environ:
        pytest.skip('the library under test brings a sanitizer of its own')
    program = tmp_path / 'sanitized'
    subprocess.run([compiler, '-g', '-fsanitize=address', '-o', program, '-x', 'c', '-', '-libverbs'], input=SANITIZED,
                   text=True, check=True)
    assert runner.run(program) == f'{DEVICE}\n'
    # What it is there for it still finds.
    assert 'heap-buffer-overflow' in runner.run(program, 'x', status=1)
    if compiler == 'gcc':  # the user's own word counts
        said = runner.run(program, env={'ASAN_OPTIONS': 'verify_asan_link_order=1'}, status=1)
        assert 'ASan runtime does not come first' in said, said


def test_other_programs_see_nothing():
    assert not os.path.exists(CLASS)


def test_costs_other_calls_nothing(runner):
    """A program that does not look there makes the same system calls with and without the view."""
    def calls(*run):
        output = runner.run('strace', '-f', '-qq', '-e', 'trace=!mmap,munmap,mprotect,brk',
                            'find', BUILD / 'src/base', run=run)
        lines = output.splitlines()
        first = next(i for i, line in enumerate(lines) if f'"{BUILD}/src/base"' in line
                     and 'execve' not in line)  # behind what the loader does
        return [re.match(r'\w+', line).group() for line in lines[first:]
                if re.match(r'\w+\(', line)]
    with_view, without = calls(), calls('--no-sysfs')
    assert with_view and with_view == without


def test_ibstatus(runner):
    """A script that changes into the tree, lists it there, and starts programs from there."""
    for argument in ([], [DEVICE], [f'{DEVICE}:1']):
        said = runner.run('ibstatus', *argument)
        assert said.startswith(f"Infiniband device '{DEVICE}' port 1 status:\n"), said
        for line in ('default gid:\t 0000:0000:0000:0000:0000:ffff:7f00:0001', 'state:\t\t 4: ACTIVE',
                     'phys state:\t 5: LinkUp', 'link_layer:\t Ethernet'):
            assert line in said, said
        assert said.count('status:') == 1 and 'unknown' not in said, said


@pytest.mark.parametrize('shell', ['sh', 'bash'])
def test_changing_into_the_tree(runner, shell):
    """Relative paths, in the shell and in what it starts; up, and out of the tree."""
    real = f'/sys/devices/verbatim/{DEVICE}/infiniband/{DEVICE}'
    assert runner.run(shell, '-c', f'cd {CLASS} && echo * && /bin/pwd && cat {DEVICE}/ports/1/state') == \
        f'{DEVICE}\n{CLASS}\n4: ACTIVE\n'
    assert runner.run(shell, '-c', f'cd {PORT}; cd gids && cat 0 ../state; ls .. | head -n 2; test -r 0 && realpath 0'
                      ).splitlines() == ['0000:0000:0000:0000:0000:ffff:7f00:0001', '4: ACTIVE', 'cap_mask',
                                         runner.run('ls', PORT).split()[1], f'{real}/ports/1/gids/0']
    assert runner.run(shell, '-c', f'cd -P {PORT}; pwd; cd ../..; /bin/pwd; cd /sys/class; pwd; test -d net && echo net'
                      ) == f'{real}/ports/1\n{real}\n/sys/class\nnet\n'
    assert runner.run('env', '-C', CLASS, 'sh', '-c', f'cat {DEVICE}/node_type; cd ..; /bin/pwd; test -e {DEVICE} || echo up'
                      ) == '1: CA\n/sys/class\nup\n'
    said = runner.run(shell, '-c', f'cd {PORT}/state || echo no; cd {CLASS}/none || echo no; pwd')
    assert said.splitlines()[-1] == os.getcwd() and said.count('no\n') == 2, said


def test_changing_into_the_tree_leaves_nothing(runner):
    """What stands for the tree is removed before the program goes on. Other tests make such directories meanwhile."""
    said = runner.run('strace', '-f', '-qq', '-e', 'trace=mkdir,mkdirat,rmdir,unlinkat,execve', 'sh', '-c',
                      f'cd {PORT}; cat state; touch x || echo refused')
    made, removed = (list(re.finditer(rf'\b(?:{call})\([^"]*"([^"]*/\.verbatim-cwd[^"]*)".* = 0$', said, re.MULTILINE))
                     for call in ('mkdir|mkdirat', 'rmdir|unlinkat'))
    assert made and [each[1] for each in made] == [each[1] for each in removed], said
    assert removed[-1].end() < re.search(r'execve\("[^"]*/cat"', said).start(), said
    assert '4: ACTIVE' in said and 'refused' in said, said
    assert not [each[1] for each in made if os.path.exists(each[1])]


def test_changing_into_the_tree_where_little_can_be_written(runner):
    """Any of some directories does. Where none can be written, the message names programs that print the contents."""
    if os.getuid() != 0:
        pytest.skip('only root mounts')
    def read_only(*folders):
        mounts = ''.join(f'mount --bind {f} {f} && mount -o remount,ro,bind {f} && ' for f in folders)
        return runner.start_plain(
            'env', '-u', 'XDG_RUNTIME_DIR', 'unshare', '--mount', 'sh', '-c', f'{mounts}exec {VERBATIM} run -- '
            f'sh -c "cd {CLASS} && /bin/pwd || /bin/pwd"').finish()
    assert read_only('/tmp') == f'{CLASS}\n'
    said = read_only('/tmp', '/dev/shm', '/var/tmp')
    assert f'verbatim: cannot change to {CLASS}' in said and 'ibv_devinfo' in said, said
    assert said.endswith(f'{os.getcwd()}\n'), said


def test_a_child_of_vfork_changes_into_the_tree(runner):
    """It writes to its parent's memory, but has a working directory of its own."""
    said = runner.run('/usr/bin/python3', '-c', f'''if True:
        import os, subprocess
        here = os.getcwd()
        print(subprocess.run(["cat", "state"], cwd="{PORT}", capture_output=True, text=True).stdout.strip())
        assert os.getcwd() == here and sorted(os.listdir(".")) == sorted(os.listdir(here))
        os.chdir("{PORT}")
        subprocess.run(["true"], cwd="/sys")
        print(open("state").read().strip(), os.path.basename(os.getcwd()), "gids" in os.listdir("."))
        os.fchdir(os.open("gids", os.O_RDONLY))
        print(os.path.relpath(os.getcwd(), "{PORT}".replace("/class/", "/devices/")).split("/")[-2:])
        os.chdir(here)
        print(os.path.exists("state"))
    ''')
    assert said.splitlines() == ['4: ACTIVE', '4: ACTIVE 1 True', "['1', 'gids']", 'False'], said


def test_without_proc(runner, tmp_path):
    """What is run need not have it; verbatim finds itself by its name."""
    if os.getuid() != 0:
        pytest.skip('only root unmounts /proc')
    said = runner.start_plain('unshare', '--mount', 'sh', '-c',
                              f'mount -t tmpfs none /proc && exec {VERBATIM} run -- true').finish()
    assert said == '', said
    # Programs started in the tree would not know where they are.
    said = runner.start_plain('unshare', '--mount', 'sh', '-c', f'mount -t tmpfs none /proc && exec {VERBATIM} run -- '
                              f'sh -c "cd {CLASS} || pwd"').finish()
    assert f'verbatim: cannot change to {CLASS}' in said and 'ibv_devinfo' in said, said
    assert said.endswith(f'{os.getcwd()}\n'), said
