# SPDX-License-Identifier: BSD-2-Clause
# A thin front to Meson and scripts/; each target is one command that can be given by hand.
BUILD ?= build

.PHONY: all setup demo test test-long test-interop test-places test-programs fuzz bench deb install clean

all: $(BUILD)/build.ninja
	meson compile -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

setup:
	scripts/setup

# A build without tests (README.md) lacks what these run.
with_tests = [ ! -e $(BUILD)/build.ninja ] || [ -d $(BUILD)/tests ] || meson configure $(BUILD) -Dtests=true

demo: setup
	$(with_tests)
	$(MAKE) all
	scripts/demo

test: setup
	scripts/test

# What takes longer: all of it with sanitizers, long stress and fuzzing, static analysis, all sizes, the
# guest's matrix.
# BUDGET=SECONDS runs as much of it as fits.
test-long: setup
	scripts/test --long $(if $(BUDGET),--budget $(BUDGET))

# Against Linux's soft-RoCE in a guest, all sizes, each side as server and as client.
test-interop: setup
	scripts/test matrix

# Builds, programs and packages on other releases of Debian, in chroots.
test-places: setup
	scripts/test places

# Programs of Debian over Verbatim, in a chroot: the table of docs/programs.md.
test-programs: setup
	scripts/test programs

# A source tarball and the package for this release of Debian, into build-deb/.
deb:
	scripts/setup build packages
	scripts/deb

# Ten minutes for each fuzzer; `scripts/test fuzz` gives each some seconds.
fuzz: setup
	scripts/fuzz 600

bench: setup
	$(with_tests)
	$(MAKE) all
	scripts/bench

install: all
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf build build-*/
