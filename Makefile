# One way to build: this file. `make help` lists the targets.
#   make            build/pvi
#   make demo       install what is missing, build, fit golf
#   make test       install what is missing, build, run every test
BUILD    ?= build
CC       ?= gcc
PREFIX   ?= /usr/local
VERSION  := 0.1.0
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
OPT      ?= -O2 -g
CPPFLAGS += -Isrc -Iinclude -D_GNU_SOURCE -DPVI_VERSION='"$(VERSION)"'
CFLAGS   += -std=gnu11 $(WARN) $(OPT) -fno-math-errno -ffp-contract=off -pthread
LDLIBS   += -lm -pthread
LAYERS   := base num ir vm stan data model family score infer report cli

# Kernels are written once (src/vm/kernels.c) and compiled per instruction set.
ISA_base   :=
ISA_avx2   := -mavx2 -mfma -ffp-contract=fast
ISA_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mavx2 -mfma -mprefer-vector-width=512 -ffp-contract=fast
ISAS       := base avx2 avx512

KERNEL   := src/vm/kernels.c
LIB_SRC  := $(filter-out $(KERNEL),$(foreach d,$(filter-out cli,$(LAYERS)),$(wildcard src/$(d)/*.c)))
CLI_SRC  := $(wildcard src/cli/*.c)
LIB_OBJ  := $(LIB_SRC:src/%.c=$(BUILD)/%.o) $(if $(wildcard $(KERNEL)),$(ISAS:%=$(BUILD)/vm/kernels_%.o))
CLI_OBJ  := $(CLI_SRC:src/%.c=$(BUILD)/%.o)
TESTS    := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/test_*.c))

all: $(BUILD)/pvi

$(BUILD)/pvi: $(CLI_OBJ) $(BUILD)/libpvi.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libpvi.a: $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/vm/kernels_%.o: $(KERNEL)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_$*) -DISA=$* -MMD -MP -c -o $@ $<

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/test/%: test/%.c $(BUILD)/libpvi.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itest $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libpvi.a -lcmocka $(LDLIBS)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all clean
.SECONDARY:
