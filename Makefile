# pgqrs: durable workflows and queues for PostgreSQL
#
#   make && make install    build and install for the PostgreSQL of PG_CONFIG; CLI=no: without the program pgqrs
#   make cli                the program pgqrs alone
#   make test               all tests, on a private copy of PostgreSQL
#   make test ONLY=…        some of them: kinds (regress, isolation, pgtap, tap, model) or file names
#   make installcheck       PGXS's tests, on a running server that has the extension installed, preloaded and paused
#   make demo [DIR=…]       the zip_files workflow, killed and resumed
#   make bench [QUICK=1]    measures speed against others; test/perf/bench/run says more
#   make latency            how soon those that wait are woken
#   make model              the protocol of the floors, explored by spin; FULL=1: more of it
#   make stress             looks for lost messages for minutes; test/soak/stress/run says more
#   make stress-broken      the same where the protocol of the floors is broken on purpose
#   make chaos              kills everything for ten minutes and looks for broken promises; test/soak/chaos/run says more
#   make soak               mixed work for an hour while transaction ids come around; test/soak/soak/run says more
#   make retention          what it costs to remove 10 million archived messages; test/perf/retention/run says more
#   make tenants            what one tenant takes from another one; test/perf/tenants/run says more
#   make bulk              how long 100,000 failed runs take to be replayed, with a crash in the middle
#   make counters          what counters of 20,000 queues cost
#   make size              how long reading takes with 10 million archived messages
#   make matrix             the tests on PostgreSQL 15, 17 and 18, in folders of their own; tools/matrix says more
#   make hard               the tests on PostgreSQL built to find faults: assertions, valgrind, …; tools/hard says more
#   make deb                Debian packages, built twice; tools/deb says more
#   make fuzz               calls every function with random arguments; test/soak/fuzz/run says more
#   make idle               what 50 databases with nothing to do cost the server in a minute
#   make lint [ONLY=…]      checks the source without running it; tools/lint says more
#   make format             lays out the C code; format-check only looks
#   make check-layers       a source file may include only its own folder and lower ones
#   make check-words        a sentence names its subject, in code, SQL, tests and pages

EXTENSION = pgqrs
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" pgqrs.control)
MODULE_big = pgqrs
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

# The install script of this version is sql/[0-9]*.sql in the order of their names.
# sql/pgqrs--A.sql are those of released versions, sql/pgqrs--A--B.sql the updates.
SQL_PARTS = $(sort $(wildcard sql/[0-9]*.sql))
DATA = $(wildcard sql/pgqrs--*.sql)
DATA_built = $(EXTENSION)--$(EXTVERSION).sql

PG_CPPFLAGS = -I$(srcdir)/src -DPGQRS_VERSION='"$(EXTVERSION)"'
# What C knows of the tables is made from their SQL.
COLUMNS = src/base/columns.h

# PostgreSQL's headers leave parameters unused, compare signed with unsigned
# and initialize structs in part; of PG_TRY's own variables gcc warns at -Og.
PG_CFLAGS = -std=gnu99 -Wall -Wextra -Wno-unused-parameter \
	-Wno-sign-compare -Wno-missing-field-initializers -Wno-clobbered -MMD -MP
EXTRA_CLEAN = $(OBJS:.o=.d) $(COLUMNS)

# make installcheck, for packagers.  The expected results stand in expected/, the tests in
# test/; isolation results are compared as summaries.  The TAP programs start servers of
# their own, but for the first one, which takes test/pgtap to the running server.
REGRESS = $(patsubst test/sql/%.sql,%,$(sort $(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)
ISOLATION = $(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION) --outputdir=. --launcher="perl $(srcdir)/test/lib/spec_summary"
REGRESS_PREP = installcheck-server
TAP_TESTS = 1
PROVE_TESTS ?= test/installcheck/pgtap.pl test/t/*.pl

# PostgreSQL's flags are those of the compiler that built it.
ifneq (,$(findstring clang,$(CC)))
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument \
	-Wno-ignored-attributes
endif

# Bitcode for JIT inlining would need clang and is never inlined here.
ifeq ($(origin with_llvm),undefined)
override with_llvm := no
endif

.PHONY: all install cli installcheck-server objects test demo bench latency listener retention size bulk counters tenants model stress stress-broken chaos soak matrix hard deb fuzz idle lint check-layers check-words format format-check

all:

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
include $(PGXS)

# The program has a Makefile of its own, as PGXS makes one product of each.
ifneq ($(CLI),no)
all: cli
objects: cli-objects
install: cli-install
uninstall: cli-uninstall
clean distclean: cli-clean
endif

cli: cli-all
cli-%:
	@mkdir -p cli
	@$(MAKE) --no-print-directory -C cli -f $(abspath $(srcdir))/cli/Makefile PG_CONFIG='$(PG_CONFIG)' VPATH='$(if $(VPATH),$(abspath $(srcdir))/cli)' $*
else
all install:
	@echo "$(PG_CONFIG): not found or without server headers; install postgresql-server-dev-15 or set PG_CONFIG" >&2
	@exit 1

clean:
	rm -f $(OBJS) $(EXTRA_CLEAN) $(DATA_built) pgqrs.so
endif

PG_PROVE_FLAGS += -I $(srcdir)/test/lib
installcheck: export RUNNING_PGPORT = $(PGPORT)

# The background worker would do what the tests wait for in their own time.
installcheck-server:
	@test "$$('$(bindir)/psql' -XAtqd postgres -c 'SHOW pgqrs.paused')" = on || { \
		echo "installcheck needs a running server with shared_preload_libraries = 'pgqrs' and pgqrs.paused = on" >&2; exit 1; }

-include $(wildcard src/*.d src/*/*.d)

# Which objects need the columns is in their .d files, once they were made.
$(OBJS): Makefile pgqrs.control | $(COLUMNS)

$(COLUMNS): tools/generate_columns $(SQL_PARTS)
	perl tools/generate_columns $@ $(SQL_PARTS)

$(DATA_built): $(SQL_PARTS) Makefile pgqrs.control
	cat $(SQL_PARTS) > $@

# Warnings are errors for developers, and in tools/private, but not for users.
objects: CFLAGS += -Werror
objects: $(OBJS)

test:
	@bash tools/run $(ONLY)

demo:
	@bash tools/demo

bench:
	@bash test/perf/bench/run

latency:
	@bash test/perf/latency/run

listener:
	@bash test/perf/latency/listener

model:
	@bash tools/packages
	@FULL=$(FULL) bash test/soak/model/run

stress:
	@bash test/soak/stress/run

stress-broken:
	@bash test/soak/stress/run broken $(ONLY)

chaos:
	@bash test/soak/chaos/run

size:
	@bash test/perf/size/run

bulk:
	@bash test/perf/bulk/run

counters:
	@bash test/perf/counters/run

retention:
	@bash test/perf/retention/run

tenants:
	@bash test/perf/tenants/run

matrix:
	@bash tools/matrix

hard:
	@bash tools/hard $(STEPS) $(if $(ONLY),-- $(ONLY))

deb:
	@bash tools/deb

soak:
	@bash test/soak/soak/run

fuzz:
	@bash test/soak/fuzz/run

idle:
	@bash test/perf/idle/run

lint:
	@bash tools/lint $(ONLY)

check-layers:
	@perl tools/check_layers src

SENTENCES = $(filter-out $(COLUMNS) %/RESULTS.md,$(wildcard src/*.[ch] src/*/*.[ch] cli/*.[ch] sql/*.sql *.md docs/*.md docs/*/*.md \
	test/*.md test/*/*.sql test/*/*.spec test/*/*.p[lm] test/*/*/*.sql test/*/*/*.md test/*/*/*.p[lmy] test/*/*/run))

check-words:
	@perl tools/check_words $(SENTENCES)

CLANG_FORMAT ?= clang-format-14
WRITTEN = $(filter-out $(COLUMNS),$(wildcard src/*.[ch] src/*/*.[ch] cli/*.[ch]))

format:
	$(CLANG_FORMAT) -i $(WRITTEN)

format-check:
	@$(CLANG_FORMAT) --dry-run -Werror $(WRITTEN)
