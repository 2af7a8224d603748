# One way to build: this file.
#   make            build/pvi
#   make demo       install what is missing, build, fit golf
#   make test       install what is missing, build, run every test
#   make help       all targets
BUILD    ?= build
PREFIX   ?= /usr/local
VERSION  := 0.1.0
ifeq ($(origin CC),default)
CC       := gcc
endif
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
OPT      ?= -O2 -g
override CPPFLAGS += -Isrc -Iinclude -D_GNU_SOURCE -DPVI_VERSION='"$(VERSION)"'
override CFLAGS   += -std=gnu11 $(WARN) $(OPT) -fno-math-errno -ffp-contract=off -pthread \
                     -fPIC -fvisibility=hidden
override LDLIBS   += -lm -pthread
LAYERS   := base plot num ir vm stan data model family score infer report run api cli

# All cores unless the caller says otherwise (-j1).
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# One short line a file; `make V=1` shows the commands.
Q := $(if $(V),,@)
SUBMAKE = $(MAKE) --no-print-directory $(if $(V),,-s)

# Debian's names: what building and testing need, and what only some targets need.
PACKAGES          := gcc make libc6-dev libcmocka-dev python3
PACKAGES_test     := python3-numpy
PACKAGES_torture  := clang libclang-rt-14-dev
PACKAGES_valgrind := valgrind
PACKAGES_format   := clang-format
PACKAGES_deb      := dpkg
PACKAGES_html     := pandoc

# Kernels are written once (KERNELS) and compiled per instruction set.
ISA_base   :=
ISA_avx2   := -mavx2 -mfma -ffp-contract=fast
ISA_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma -mprefer-vector-width=512 -ffp-contract=fast
ISAS       := base avx2 avx512

KERNELS  := src/num/row_kernels.c src/vm/kernels.c
LIB_SRC  := $(filter-out $(KERNELS),$(foreach d,$(filter-out cli,$(LAYERS)),$(wildcard src/$(d)/*.c)))
CLI_SRC  := $(wildcard src/cli/*.c)
LIB_OBJ  := $(LIB_SRC:src/%.c=$(BUILD)/%.o) $(foreach i,$(ISAS),$(KERNELS:src/%.c=$(BUILD)/%_$i.o))
CLI_OBJ  := $(CLI_SRC:src/%.c=$(BUILD)/%.o)
TESTS    := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/test_*.c)) \
            $(BUILD)/test/test_vmath_avx2 $(BUILD)/test/test_vmath_avx512
FORMATTED = $(wildcard include/*.h src/*/*.[ch] test/*.[ch] bench/*.[ch] examples/*.h examples/*/*.[ch] r/src/*.c)

all: $(BUILD)/pvi $(BUILD)/libpvi.so ## build/pvi and build/libpvi.so (the default)

# ---- compiling ----

$(BUILD)/pvi: $(CLI_OBJ) $(BUILD)/libpvi.a
	@echo '  LD  $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libpvi.a: $(LIB_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

# The shared library exports the names of include/pvi.h and nothing else (pvi.map).
SONAME := libpvi.so.$(firstword $(subst ., ,$(VERSION)))
$(BUILD)/libpvi.so: $(LIB_OBJ) pvi.map
	@echo '  LD  $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=pvi.map -o $@ $(LIB_OBJ) $(LDLIBS)
	$(Q)ln -sf libpvi.so $(BUILD)/$(SONAME)

# kernels_avx2.o is made from kernels.c: of two patterns that match, make takes the one with more letters.
define ISA_RULE
$(BUILD)/%_$1.o: src/%.c
	@mkdir -p $$(@D)
	@echo '  CC  $$< ($1)'
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(ISA_$1) -DISA=$1 -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$i)))

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# The vector mathematics lives in headers, so its test is compiled per instruction set too.
$(BUILD)/test/test_vmath_avx2 $(BUILD)/test/test_vmath_avx512: $(BUILD)/test/test_vmath_%: test/test_vmath.c $(BUILD)/libpvi.a
	@mkdir -p $(@D)
	@echo '  CC  $< ($*)'
	$(Q)$(CC) $(CPPFLAGS) -Itest $(CFLAGS) $(ISA_$*) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libpvi.a -lcmocka $(LDLIBS)

$(BUILD)/test/%: test/%.c $(BUILD)/libpvi.a
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(Q)$(CC) $(CPPFLAGS) -Itest $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libpvi.a -lcmocka $(LDLIBS)

# The example programs see the public header and the library only.
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*/*.c))
$(BUILD)/examples/%: examples/%.c $(BUILD)/libpvi.a
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(Q)$(CC) -D_GNU_SOURCE -Iinclude $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libpvi.a $(LDLIBS)

examples: $(EXAMPLES) ## the programs of doc/examples.md, in build/examples

static: $(BUILD)/pvi-static ## one self-contained executable for any x86-64 Linux: build/pvi-static

# Kernels for AVX2 and AVX-512 are inside and chosen at run time; the rest is baseline x86-64.
$(BUILD)/pvi-static: $(CLI_OBJ) $(BUILD)/libpvi.a
	@echo '  LD  $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -static -o $@ $^ $(LDLIBS)

# ---- running ----

deps: ## install the Debian packages that are missing
	@tool/deps.sh $(PACKAGES)

demo: deps ## build, then fit the golf example
	@+$(SUBMAKE) all
	@PVI=$(BUILD)/pvi tool/demo.sh

# Without numpy the tests of the Python package are skipped, visibly.
test: deps ## build, run every test; the last line is "N passed, M failed"
	@tool/deps.sh $(PACKAGES_test) || true
	@+$(SUBMAKE) all static tests
	@PVI=$(BUILD)/pvi tool/test.sh $(BUILD)/test

# Helpers of the test scripts: a fit through the shared library (and test/fuzz_types, made as the tests are).
$(BUILD)/test/api_fit: test/api_fit.c $(BUILD)/libpvi.so
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(Q)$(CC) -Iinclude $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< -L$(BUILD) -lpvi -Wl,-rpath,'$$ORIGIN/..'

tests: $(TESTS) $(EXAMPLES) $(BUILD)/test/api_fit $(BUILD)/test/fuzz_types

# Hostile: sanitizers, tiny tiles and arenas, an odd number of threads, every allocation failing in turn.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
HOSTILE    := CPPFLAGS='-DPVI_TORTURE -DPVI_ARENA_BLOCK=64'
HOSTILE_IN := BUILD=$(BUILD)-torture CC=clang OPT='-O1 -g $(SANITIZE)'
torture: deps ## all tests under sanitizers, with tiny buffers and failing allocations
	@tool/deps.sh $(PACKAGES_torture)
	@+$(HOSTILE) $(SUBMAKE) $(HOSTILE_IN) all tests
	@PVI=$(BUILD)-torture/pvi PVI_THREADS=7 tool/test.sh $(BUILD)-torture/test
	@PVI=$(BUILD)-torture/pvi tool/torture.sh

# Fits of 20 s and more, killed with kill -9 at random moments and resumed.
CRASH_FIT ?= examples/golf/logistic.stan examples/golf/golf.csv --family flow --draws 8192 --iterations 400
crash: deps ## a long fit killed at 20 random moments and resumed (CRASH_FIT, CRASH_KILLS=20)
	@+$(SUBMAKE) all
	@PVI=$(BUILD)/pvi tool/crash.sh $(or $(CRASH_KILLS),20) 2 $(CRASH_FIT)

# Threads: the tests that have several of them, each with a context of its own.
race: deps ## the library's tests under ThreadSanitizer
	@+$(SUBMAKE) BUILD=$(BUILD)-race OPT='-O1 -g -fsanitize=thread -Wno-maybe-uninitialized' \
	  $(BUILD)-race/test/test_api $(BUILD)-race/test/test_threads
	@for t in test_api test_threads; do $(BUILD)-race/test/$$t || exit 1; done

paper: deps ## the paper's figures and tables, run anew, as pages in paper/ (PAPER='golf seven' for some of them)
	@+$(SUBMAKE) all examples
	@python3 tool/paper.py $(BUILD)/pvi $(BUILD)/examples $(or $(PVI_SHARED),../shared) paper $(PAPER)

mutants: deps ## 30 changes of one line each: would the tests notice? (MUTANTS='3 17')
	@+$(SUBMAKE) all
	@python3 tool/mutants.py $(MUTANTS)

heldout: deps ## nested cross-validation over posteriordb: does a tuned fit beat VI? (POSTERIORDB=checkout, HELDOUT_NAMES)
	@+$(SUBMAKE) all
	@[ -d "$(POSTERIORDB)/posterior_database" ] || { echo 'skipped: POSTERIORDB must name a checkout of posteriordb'; exit 0; } && \
	  python3 tool/heldout.py $(BUILD)/pvi $(POSTERIORDB) $(or $(PVI_SHARED),../shared)/data/posteriordb $(HELDOUT_NAMES)

calibrate: deps ## how often diagnose flags what, on simulated data (CALIBRATE_SETS=200, CALIBRATE='glmm slope')
	@+$(SUBMAKE) all
	@python3 tool/calibrate.py $(BUILD)/pvi $(or $(CALIBRATE_SETS),200) $(CALIBRATE)

SHARED_DATA = $(or $(PVI_SHARED),../shared)/data
campaign: deps ## how every posterior of posteriordb is fitted (POSTERIORDB=checkout, CAMPAIGN='--seconds 60 --seeds 5 WORD')
	@+$(SUBMAKE) all
	@[ -n "$(POSTERIORDB)" ] || { echo "skipped: POSTERIORDB names no checkout of posteriordb"; exit 0; }; \
	  python3 tool/campaign.py $(BUILD)/pvi "$(POSTERIORDB)" $(SHARED_DATA)/posteriordb \
	    --reference $(SHARED_DATA)/posteriordb_reference/summary_statistics $(CAMPAIGN)

reference: deps ## draws of pvi sample against posteriordb's reference (POSTERIORDB=checkout, REFERENCE='--seconds 120 WORD')
	@+$(SUBMAKE) all
	@[ -n "$(POSTERIORDB)" ] || { echo "skipped: POSTERIORDB names no checkout of posteriordb"; exit 0; }; \
	  python3 tool/reference.py $(BUILD)/pvi "$(POSTERIORDB)" $(SHARED_DATA)/posteriordb \
	    $(SHARED_DATA)/posteriordb_reference/summary_statistics $(REFERENCE)

sbc: deps ## simulation-based calibration of pvi sample (SBC='--sets 200 WORD')
	@+$(SUBMAKE) all
	@python3 tool/sbc.py $(BUILD)/pvi $(SBC)

fuzz: deps ## mutated programs and data, and programs over every builtin, under sanitizers (FUZZ_RUNS=300, FUZZ_TYPES=20000)
	@tool/deps.sh $(PACKAGES_torture)
	@+$(HOSTILE) $(SUBMAKE) $(HOSTILE_IN) all $(BUILD)-torture/test/fuzz_mutate $(BUILD)-torture/test/fuzz_types
	@PVI=$(BUILD)-torture/pvi tool/fuzz.sh $(BUILD)-torture/test/fuzz_mutate
	@$(BUILD)-torture/test/fuzz_types $(or $(FUZZ_TYPES),20000) $(or $(FUZZ_SEED),1)

$(BUILD)/bench/%: bench/%.c $(BUILD)/libpvi.a
	@mkdir -p $(@D)
	@echo '  CC  $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -march=native -ffp-contract=fast $(LDFLAGS) -o $@ $< $(BUILD)/libpvi.a $(LDLIBS)

BENCHES := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))
$(BUILD)/bench/bench_kernels: bench/reference.h
bench: deps ## the engine against libm, hand-written kernels and Stan; how cost grows
	@+$(SUBMAKE) all $(BENCHES)
	@PVI=$(BUILD)/pvi tool/bench.sh $(BUILD)/bench

valgrind: deps ## a small set of tests under valgrind
	@tool/deps.sh $(PACKAGES_valgrind)
	@+$(SUBMAKE) all tests
	@PVI=$(BUILD)/pvi tool/valgrind.sh $(BUILD)/test

format: ## clang-format all C files
	@tool/deps.sh $(PACKAGES_format)
	$(Q)clang-format -i $(FORMATTED)

format-check: ## fail where clang-format would change something
	@tool/deps.sh $(PACKAGES_format)
	$(Q)clang-format --dry-run -Werror $(FORMATTED)

# ---- installing ----

DEST   = $(DESTDIR)$(PREFIX)
LIBDIR ?= lib
install: all ## into PREFIX (/usr/local), below DESTDIR when given; LIBDIR (lib) is where libraries go
	install -Dm755 $(BUILD)/pvi $(DEST)/bin/pvi
	install -Dm644 $(BUILD)/libpvi.a $(DEST)/$(LIBDIR)/libpvi.a
	install -Dm755 $(BUILD)/libpvi.so $(DEST)/$(LIBDIR)/libpvi.so.$(VERSION)
	ln -sf libpvi.so.$(VERSION) $(DEST)/$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DEST)/$(LIBDIR)/libpvi.so
	install -Dm644 include/pvi.h $(DEST)/include/pvi.h
	install -d $(DEST)/$(LIBDIR)/pkgconfig $(DEST)/share/man/man1
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' pvi.pc.in > $(DEST)/$(LIBDIR)/pkgconfig/pvi.pc
	install -Dm644 doc/pvi.1 $(DEST)/share/man/man1/pvi.1
	install -d $(DEST)/share/bash-completion/completions $(DEST)/share/zsh/site-functions
	$(BUILD)/pvi completion bash > $(DEST)/share/bash-completion/completions/pvi
	$(BUILD)/pvi completion zsh > $(DEST)/share/zsh/site-functions/_pvi

deb: all ## a Debian package, build/pvi_VERSION_ARCH.deb, unpacked and tried
	@tool/deps.sh $(PACKAGES_deb)
	@+tool/deb.sh $(BUILD) $(VERSION)

html: ## the pages of doc/ as HTML, in build/html
	@tool/deps.sh $(PACKAGES_html)
	@tool/html.sh $(BUILD)/html

uninstall: ## remove what install put there
	rm -f $(DEST)/bin/pvi $(DEST)/$(LIBDIR)/libpvi.a $(DEST)/$(LIBDIR)/libpvi.so* $(DEST)/include/pvi.h \
	  $(DEST)/$(LIBDIR)/pkgconfig/pvi.pc $(DEST)/share/man/man1/pvi.1 \
	  $(DEST)/share/bash-completion/completions/pvi $(DEST)/share/zsh/site-functions/_pvi

docs: all ## doc/options.md and the manual page doc/pvi.1, from the tables of commands and options
	$(BUILD)/pvi manual markdown > doc/options.md
	$(BUILD)/pvi manual man > doc/pvi.1

clean: ## remove everything that was built
	rm -rf $(BUILD) $(BUILD)-torture $(BUILD)-race

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

# Dependencies are made by compiling, never by a rule of their own.
$(BUILD)/%.d: ;
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all paper deb html reference sbc bench calibrate mutants campaign crash deps docs heldout race demo test tests examples static torture valgrind format format-check install uninstall clean help
.SECONDARY:
