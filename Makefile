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
override CFLAGS   += -std=gnu11 $(WARN) $(OPT) -fno-math-errno -ffp-contract=off -pthread
override LDLIBS   += -lm -pthread
LAYERS   := base num ir vm stan data model family score infer report api cli

# All cores unless the caller says otherwise (-j1).
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# One short line a file; `make V=1` shows the commands.
Q := $(if $(V),,@)
SUBMAKE = $(MAKE) --no-print-directory $(if $(V),,-s)

# Debian's names: what building and testing need, and what only some targets need.
PACKAGES          := gcc make libc6-dev libcmocka-dev
PACKAGES_torture  := clang libclang-rt-14-dev
PACKAGES_valgrind := valgrind
PACKAGES_format   := clang-format

# Kernels are written once (src/vm/kernels.c) and compiled per instruction set.
ISA_base   :=
ISA_avx2   := -mavx2 -mfma -ffp-contract=fast
ISA_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma -mprefer-vector-width=512 -ffp-contract=fast
ISAS       := base avx2 avx512

KERNEL   := src/vm/kernels.c
LIB_SRC  := $(filter-out $(KERNEL),$(foreach d,$(filter-out cli,$(LAYERS)),$(wildcard src/$(d)/*.c)))
CLI_SRC  := $(wildcard src/cli/*.c)
LIB_OBJ  := $(LIB_SRC:src/%.c=$(BUILD)/%.o) $(ISAS:%=$(BUILD)/vm/kernels_%.o)
CLI_OBJ  := $(CLI_SRC:src/%.c=$(BUILD)/%.o)
TESTS    := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/test_*.c)) \
            $(BUILD)/test/test_vmath_avx2 $(BUILD)/test/test_vmath_avx512
FORMATTED = $(wildcard include/*.h src/*/*.[ch] test/*.[ch] bench/*.[ch] examples/*.h examples/*/*.c)

all: $(BUILD)/pvi ## build/pvi (the default)

# ---- compiling ----

$(BUILD)/pvi: $(CLI_OBJ) $(BUILD)/libpvi.a
	@echo '  LD  $@'
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libpvi.a: $(LIB_OBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/vm/kernels_%.o: $(KERNEL)
	@mkdir -p $(@D)
	@echo '  CC  $< ($*)'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_$*) -DISA=$* -MMD -MP -c -o $@ $<

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

test: deps ## build, run every test; the last line is "N passed, M failed"
	@+$(SUBMAKE) all static tests
	@PVI=$(BUILD)/pvi tool/test.sh $(BUILD)/test

tests: $(TESTS) $(EXAMPLES)

# Hostile: sanitizers, tiny tiles and arenas, an odd number of threads, every allocation failing in turn.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
HOSTILE    := CPPFLAGS='-DPVI_TORTURE -DPVI_ARENA_BLOCK=64'
HOSTILE_IN := BUILD=$(BUILD)-torture CC=clang OPT='-O1 -g $(SANITIZE)'
torture: deps ## all tests under sanitizers, with tiny buffers and failing allocations
	@tool/deps.sh $(PACKAGES_torture)
	@+$(HOSTILE) $(SUBMAKE) $(HOSTILE_IN) all tests
	@PVI=$(BUILD)-torture/pvi PVI_THREADS=7 tool/test.sh $(BUILD)-torture/test
	@PVI=$(BUILD)-torture/pvi tool/torture.sh

fuzz: deps ## mutated programs and data under sanitizers (FUZZ_RUNS=300)
	@tool/deps.sh $(PACKAGES_torture)
	@+$(HOSTILE) $(SUBMAKE) $(HOSTILE_IN) all $(BUILD)-torture/test/fuzz_mutate
	@PVI=$(BUILD)-torture/pvi tool/fuzz.sh $(BUILD)-torture/test/fuzz_mutate

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
	clang-format -i $(FORMATTED)

format-check: ## fail where clang-format would change something
	@tool/deps.sh $(PACKAGES_format)
	clang-format --dry-run -Werror $(FORMATTED)

# ---- installing ----

DEST = $(DESTDIR)$(PREFIX)
install: all ## into PREFIX (/usr/local), below DESTDIR when given
	install -Dm755 $(BUILD)/pvi $(DEST)/bin/pvi
	install -Dm644 $(BUILD)/libpvi.a $(DEST)/lib/libpvi.a
	install -Dm644 include/pvi.h $(DEST)/include/pvi.h
	install -d $(DEST)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' pvi.pc.in > $(DEST)/lib/pkgconfig/pvi.pc

uninstall: ## remove what install put there
	rm -f $(DEST)/bin/pvi $(DEST)/lib/libpvi.a $(DEST)/include/pvi.h $(DEST)/lib/pkgconfig/pvi.pc

clean: ## remove everything that was built
	rm -rf $(BUILD) $(BUILD)-torture

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

# Dependencies are made by compiling, never by a rule of their own.
$(BUILD)/%.d: ;
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all bench deps demo test tests examples static torture valgrind format format-check install uninstall clean help
.SECONDARY:
