# A thin front to Meson and scripts/; each target is one command that can be given by hand.
BUILD ?= build

.PHONY: all setup demo test test-long test-interop fuzz bench install clean

all: $(BUILD)/build.ninja
	meson compile -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

setup:
	scripts/setup

demo: setup
	$(MAKE) all
	scripts/demo

test: setup
	scripts/test

# Everything that `test` runs, plus the tests marked `long`, without the limit on the whole.
test-long: setup
	scripts/test --long

# Against Linux's soft-RoCE in a guest, all sizes, each side as server and as client.
test-interop: setup
	scripts/test --long interop

# Ten minutes for each fuzzer; `test` gives each a quarter or half a minute.
fuzz: setup
	scripts/fuzz 600

bench: setup
	$(MAKE) all
	scripts/bench

install: all
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf build build-*/
