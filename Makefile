# SPDX-License-Identifier: GPL-2.0
#
# The commands of the project. Each is a script in tools/ or tests/; this file
# only names them. kbuild reads Kbuild, not this.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

.PHONY: help module install uninstall run run-failover test test-long kunit host-test pyverbs conformance \
	bench profile \
	check docs rustdoc rust-analyzer fmt clean update

help: ## this list
	@echo 'Commands (root is needed; the first use of each fetches and builds what it lacks):'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo 'Settings, as in make test SIB_LANES=2, or from the environment, of which sudo keeps nothing:'
	@echo '  SIB_KERNEL   series or release of the stock kernel (7.2), such as 7.3 or $$(uname -r)'
	@echo '  SIB_CACHE    where roots, kernels and images are kept (~/.cache/sib)'
	@echo '  SIB_MIRROR   Debian mirror (https://deb.debian.org/debian)'
	@echo '  SIB_JOBS     compilers at a time (all processors)'
	@echo '  SIB_PATIENCE factor for the limits of time of guests (1, in tests 3)'
	@echo '  SIB_LANES    tests in guests at a time of make test (one for two processors and 6 GiB of memory)'

module: ## build the modules for the stock Debian kernel, in build/stock
	@tools/module stock

install: ## install the modules on this Debian machine
	@tools/install

uninstall: ## remove them, for all kernels of this machine
	@tools/uninstall

run: ## the demonstration: two HCAs, OpenSM and ping-pongs in a virtual machine
	@tools/vm --timeout 300 tests/vm/demo.sh

run-failover: ## another: a view of two connections while ports are pulled and return
	@tools/root-exec make -s -C /src/tests/user
	@tools/module stock
	@view=; [ ! -t 1 ] || view=view; tools/vm --timeout 300 tests/vm/failover.sh $$view

test: ## the tests, but for those that take long
	@tests/run

test-long: ## every test, the long ones, the next kernel series, and PREEMPT_RT
	@tests/run --long

kunit: ## the unit tests inside the debug kernel
	@tools/kunit

host-test: ## the unit and property tests of the pure crates on this machine
	@tools/cargo test --workspace

pyverbs: ## the tests of pyverbs, verdict by verdict; tools/pyverbs rxe for the same on rxe
	@tools/pyverbs

conformance: ## run them on sib and rxe, and write Documentation/conformance.rst
	@tools/pyverbs --write

bench: ## the speed of sib beside rxe and siw, in virtual machines (QUICK=1: less of it)
	@tools/bench $(if $(filter-out 0 no,$(QUICK)),--quick)

profile: ## the functions that a message's instructions belong to (KIND=send SIZE=8)
	@tools/profile $(or $(KIND),send) $(or $(SIZE),8)

check: ## formatting, lints, and the rules about unsafe, panics, layers and the kernel stack
	@tools/check/all

docs: ## the manual as HTML, in build/docs
	@tools/docs/build

rustdoc: ## the documentation of all crates, in build/rustdoc
	@tools/rustdoc

rust-analyzer: ## rust-project.json for editors
	@tools/rust-analyzer

fmt: ## format all Rust files
	@tools/check/format --write

clean: ## remove what was built in the tree; the cache stays
	@rm -rf build rust-project.json

update: ## ask the package index for newer packages and kernels at the next use
	@tools/update
