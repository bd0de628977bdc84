# SPDX-License-Identifier: BSD-2-Clause
"""Programs in Go: a static one makes system calls by itself, and is told why it sees nothing; one with cgo is a program
like others."""
import os
import pathlib
import subprocess
import tempfile

import rows

SECONDS = 180  # the first build compiles Go's own library

STATIC = '''package main

import ("fmt"; "os")

func main() {
	entries, _ := os.ReadDir("/sys/class/infiniband")
	fmt.Println(len(entries), "devices")
}
'''

CGO = '''package main

// #cgo LDFLAGS: -libverbs
// #include <infiniband/verbs.h>
import "C"
import "fmt"

func main() {
	var count C.int
	list := C.ibv_get_device_list(&count)
	defer C.ibv_free_device_list(list)
	fmt.Println(count, "devices")
}
'''


def output_of(host, source, cgo):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'main.go')
        path.write_text(source, encoding='ascii')
        environment = {**os.environ, 'GOCACHE': '/var/cache/go', 'CGO_ENABLED': str(int(cgo))}
        subprocess.run(['go', 'build', '-o', path.with_suffix(''), path], env=environment, check=True)
        return host.run(path.with_suffix(''))


def static(a, _):
    output = output_of(a, STATIC, False)
    rows.check('statically linked' in output and '0 devices' in output, output)


def cgo(a, _):
    rows.check(output_of(a, CGO, True).strip() == '1 devices', 'no device')


rows.row('Go', 'a static program is told why it sees nothing', 'golang-go', where=(rows.ONE,), seconds=SECONDS)(static)
rows.row('Go', 'a program with cgo lists the devices', 'golang-go', where=(rows.ONE,), seconds=SECONDS)(cgo)
