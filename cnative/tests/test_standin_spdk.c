/* SPDX-License-Identifier: Apache-2.0 */
/* The spdk engine against a stand-in (standin/libspdk_nvme.c): data, depth, parts of large requests, errors, what is missing. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>

#include "fixture.h"
#include "pattern.h"

#define FOLDER "standin_spdk"
#define MIB (UINT64_C(1) << 20)
#define TRANSPORT "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:4420 subnqn:nqn.2016-06.io.spdk:lab"

static const struct gpuio_spdk_options usual = {.library = FOLDER, .transport = TRANSPORT, .nsid = 1, .memory_mib = 64};

static struct gpuio_spdk *attached(void)
{
	struct gpuio_spdk *spdk;
	struct gpuio_why why;
	int rc = gpuio_spdk_open(&usual, &spdk, &why);

	if (rc)
		fprintf(stderr, "gpuio_spdk_open: %d, %s\n", rc, why.text);
	CHECK_EQ(rc, 0);
	return spdk;
}

static unsigned live_qpairs(void)
{
	unsigned (*count)(void);
	void *address = dlsym(RTLD_DEFAULT, "standin_spdk_live_qpairs");

	CHECK(address);
	memcpy(&count, &address, sizeof(address));
	return count();
}

static void lay_out(struct gpuio_spdk *spdk)
{
	unsigned char *piece = malloc(16 * MIB);
	struct gpuio_why why;

	CHECK(piece);
	gpuio_pattern_fill(piece, 16 * MIB, 0, 7);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_WRITE, piece, 16 * MIB, 0, &why), 0);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_FSYNC, NULL, 0, 0, &why), 0);
	free(piece);
}

static void settle(struct fixture *f, struct gpuio_spdk *spdk, uint32_t jobs, uint32_t depth, uint32_t block)
{
	f->spec.engine = "spdk";
	f->spec.fd = -1;
	f->spec.spdk = spdk;
	f->spec.jobs = jobs;
	f->spec.depth = depth;
	f->spec.block = block;
	f->spec.read_percent = 100;
	f->spec.region_bytes = 16 * MIB;
	f->spec.timeout_ns = UINT64_C(60000000000);
}

static void check_sweep(struct gpuio_run *run, uint64_t least, bool good)
{
	uint64_t checked, bad, first;
	struct gpuio_why why;

	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &why), 0);
	CHECK(checked >= least);
	CHECK_EQ(bad > 0, !good);
}

static void moves(struct fixture *f, struct gpuio_spdk *spdk, uint32_t jobs, uint32_t depth, uint32_t block, uint32_t read_percent,
		  const char *parts)
{
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, spdk, jobs, depth, block);
	f->spec.read_percent = read_percent;
	f->spec.verify = 1;
	run = fixture_run(f);
	gpuio_facts(run, &f->why);
	CHECK(mentions(&f->why, parts));
	for (int i = 0; i < 2; i++) {
		window = fixture_window(run, 300);
		CHECK_EQ(window.ios, 300);
		CHECK_EQ(window.errors + window.short_ios, 0);
		CHECK_EQ(window.bytes, 300 * (uint64_t)block);
		if (!getenv("STANDIN_SPDK_ROOM"))
			CHECK(window.max_in_flight >= depth);
		CHECK_EQ(window.verified, window.reads);
		CHECK_EQ(window.bad, 0);
		check_sweep(run, jobs, true);
	}
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(live_qpairs(), 1); /* that of transfers outside of runs */
	f->spec.verify = 0;
}

static void large_requests_go_in_parts_through_a_small_queue(struct fixture *f, struct gpuio_spdk *spdk)
{
	/* Three commands fit, a request has eight: it is sent bit by bit, and never twice. */
	setenv("STANDIN_SPDK_ROOM", "3", 1);
	moves(f, spdk, 2, 4, 1 << 20, 50, "parts=8");
	moves(f, spdk, 1, 16, 4096, 100, "parts=1");
	unsetenv("STANDIN_SPDK_ROOM");
	moves(f, spdk, 1, 8, 192 << 10, 30, "parts=2"); /* the second part is shorter */
}

static void waits_for_arrivals(struct fixture *f, struct gpuio_spdk *spdk)
{
	uint64_t arrivals[100];
	struct gpuio_run *run;

	for (unsigned i = 0; i < 100; i++)
		arrivals[i] = i * 20000;
	settle(f, spdk, 1, 8, 4096);
	f->spec.arrivals = arrivals;
	f->spec.n_arrivals = 100;
	run = fixture_run(f);
	CHECK_EQ(fixture_window(run, 100).ios, 100);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.arrivals = NULL;
	f->spec.n_arrivals = 0;
}

static void syncs(struct fixture *f, struct gpuio_spdk *spdk)
{
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, spdk, 1, 4, 4096);
	f->spec.read_percent = 0;
	f->spec.sync = GPUIO_SYNC_EVERY;
	f->spec.sync_every = 10;
	run = fixture_run(f);
	CHECK_EQ(fixture_window(run, 100).syncs, 10);
	setenv("STANDIN_SPDK_FAULT", "flush:0x281", 1); /* unrecovered read error, of the media */
	window = fixture_window(run, 100);
	CHECK(window.errors > 0);
	CHECK_EQ(window.first_error, -EIO);
	unsetenv("STANDIN_SPDK_FAULT");
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.sync = GPUIO_SYNC_NONE;
}

static void one_fault(struct gpuio_run *run, const char *fault, int error)
{
	struct gpuio_window window;

	setenv("STANDIN_SPDK_FAULT", fault, 1);
	window = fixture_window(run, 20);
	unsetenv("STANDIN_SPDK_FAULT");
	CHECK_EQ(window.ios, 0);
	CHECK_EQ(window.errors, 20);
	CHECK_EQ(window.first_error, error);
}

static void faults_of_requests_are_their_results(struct fixture *f, struct gpuio_spdk *spdk)
{
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, spdk, 1, 4, 256 << 10); /* of two parts each */
	run = fixture_run(f);
	one_fault(run, "read:0x281", -EIO);
	one_fault(run, "read:0x80", -ENXIO);
	one_fault(run, "refuse", -EINVAL);
	setenv("STANDIN_SPDK_FAULT", "wrong", 1);
	CHECK_EQ(fixture_window(run, 20).ios, 20);
	unsetenv("STANDIN_SPDK_FAULT");
	check_sweep(run, 4, false);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.read_percent = 0;
	run = fixture_run(f);
	one_fault(run, "write:0x81", -ENOSPC);
	one_fault(run, "write:0x182", -EROFS);
	CHECK_EQ(fixture_window(run, 20).ios, 20);
	setenv("STANDIN_SPDK_FAULT", "lost", 1);
	CHECK_EQ(gpuio_window(run, 20, &window, &f->why), -ENODEV);
	CHECK(mentions(&f->why, "SPDK lost the controller (Stand-in controller)"));
	unsetenv("STANDIN_SPDK_FAULT");
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(live_qpairs(), 1);
}

static void refused(struct fixture *f, int code, const char *words)
{
	struct gpuio_run *run;

	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), code);
	CHECK(mentions(&f->why, words));
	CHECK_EQ(live_qpairs(), f->spec.spdk ? 1 : live_qpairs());
}

static void impossible_cells_are_refused(struct fixture *f, struct gpuio_spdk *spdk)
{
	settle(f, spdk, 1, 256, 4096);
	refused(f, -EINVAL, "queue depth 256: a queue pair of SPDK holds 255");
	settle(f, spdk, 1, 1, 1000);
	refused(f, -EINVAL, "not whole sectors of 512");
	settle(f, spdk, 1, 1, 4096);
	f->spec.region_offset = 4096;
	refused(f, -EINVAL, "the namespace at 16777216");
	f->spec.region_offset = 0;
	f->spec.spdk = NULL;
	refused(f, -EBADF, "no namespace is attached");
	settle(f, spdk, 1, 1, 4096);
	setenv("STANDIN_SPDK_FAULT", "qpair", 1);
	refused(f, -ENOMEM, "no queue pair for job 0");
	setenv("STANDIN_SPDK_FAULT", "memory:5", 1);
	settle(f, spdk, 1, 8, 4096);
	refused(f, -ENOMEM, "no memory left for buffer 5 of 8 with 4096 bytes");
	unsetenv("STANDIN_SPDK_FAULT");
}

static void no_attach(const struct gpuio_spdk_options *options, const char *fault, int code, const char *words)
{
	struct gpuio_spdk *spdk;
	struct gpuio_why why;

	if (fault)
		setenv("STANDIN_SPDK_FAULT", fault, 1);
	CHECK_EQ(gpuio_spdk_open(options, &spdk, &why), code);
	CHECK(!spdk);
	CHECK(mentions(&why, words));
	unsetenv("STANDIN_SPDK_FAULT");
	CHECK_EQ(live_qpairs(), 0);
}

static void each_step_of_attaching_may_fail(void)
{
	struct gpuio_spdk_options other = usual;

	no_attach(&usual, "init", -ENOMEM, "cannot start with 64 MiB");
	no_attach(&usual, "post", -ENOMEM, "cannot start with 64 MiB");
	no_attach(&usual, "parse", -EINVAL, "does not understand the address");
	no_attach(&usual, "connect", -ENODEV, "is a target listening there");
	no_attach(&usual, "inactive", -ENOENT, "no active namespace 1");
	no_attach(&usual, "metadata", -ENOTSUP, "8 bytes of metadata");
	no_attach(&usual, "qpair", -ENOMEM, "no queue pair left");
	no_attach(&usual, "memory:1", -ENOMEM, "no memory left");
	other.nsid = 3;
	no_attach(&other, NULL, -ENOENT, "no active namespace 3");
	other = usual;
	other.pci = "0000:01:00.0";
	other.memory_mib = 0;
	no_attach(&other, "init", -ENOMEM, "vm.nr_hugepages");
	no_attach(&other, "connect", -ENODEV, "bind it to vfio-pci");
	setenv("STANDIN_SPDK_SECTOR", "520", 1);
	no_attach(&usual, NULL, -ENOTSUP, "sectors of 520 bytes");
	unsetenv("STANDIN_SPDK_SECTOR");
}

static void missing_libraries_are_told(struct fixture *f)
{
	CHECK_EQ(gpuio_engine_probe("spdk", "./nowhere", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "SPDK's folder ./nowhere cannot be entered"));
	CHECK_EQ(gpuio_engine_probe("spdk", ".", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "SPDK is not installed"));
	CHECK(mentions(&f->why, "GPUIO_SPDK_LIBDIR=/path/to/lib"));
	CHECK_EQ(gpuio_engine_probe("spdk", FOLDER, &f->why), 0);
	setenv("GPUIO_SPDK_LIBDIR", FOLDER, 1);
	CHECK_EQ(gpuio_engine_probe("spdk", NULL, &f->why), 0);
	unsetenv("GPUIO_SPDK_LIBDIR");
}

static void transfers_check_their_place(struct gpuio_spdk *spdk)
{
	static unsigned char buf[4096];
	struct gpuio_spdk_info info;
	struct gpuio_why why;

	gpuio_spdk_describe(spdk, &info);
	CHECK_EQ(strcmp(info.model, "Stand-in controller"), 0);
	CHECK_EQ(strcmp(info.firmware, "0.1"), 0);
	CHECK_EQ(info.bytes, 16 * MIB);
	CHECK_EQ(info.max_transfer, 131072);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_READ, buf, 100, 0, &why), -EINVAL);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_READ, buf, 4096, 16 * MIB, &why), -EINVAL);
	CHECK(mentions(&why, "not whole sectors of 512 bytes in a namespace of 16777216"));
	setenv("STANDIN_SPDK_FAULT", "read:0x281", 1);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_READ, buf, 4096, 8192, &why), -EIO);
	CHECK(mentions(&why, "SPDK cannot read at offset 8192"));
	unsetenv("STANDIN_SPDK_FAULT");
}

static void a_lost_connection_is_told(struct gpuio_spdk *spdk)
{
	static unsigned char buf[4096];
	struct gpuio_why why;

	setenv("STANDIN_SPDK_FAULT", "lost", 1);
	CHECK_EQ(gpuio_spdk_transfer(spdk, GPUIO_READ, buf, 4096, 8192, &why), -ENODEV);
	CHECK(mentions(&why, "is lost"));
	unsetenv("STANDIN_SPDK_FAULT");
}

static void starting_leaves_the_thread_where_it_may_run(void)
{
	cpu_set_t before, after;

	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	gpuio_spdk_close(attached());
	CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
}

int main(void)
{
	struct gpuio_spdk *spdk;
	struct fixture f;

	fixture_open(&f, MIB);
	missing_libraries_are_told(&f);
	each_step_of_attaching_may_fail();
	starting_leaves_the_thread_where_it_may_run();
	spdk = attached();
	lay_out(spdk);
	transfers_check_their_place(spdk);
	moves(&f, spdk, 1, 1, 4096, 100, "sector=512 largest_transfer=131072 parts=1");
	moves(&f, spdk, 3, 32, 4096, 60, "parts=1");
	gpuio_spdk_close(spdk);
	/* Queue pairs of another size belong to a new connection. */
	spdk = attached();
	large_requests_go_in_parts_through_a_small_queue(&f, spdk);
	waits_for_arrivals(&f, spdk);
	syncs(&f, spdk);
	faults_of_requests_are_their_results(&f, spdk);
	impossible_cells_are_refused(&f, spdk);
	a_lost_connection_is_told(spdk);
	gpuio_spdk_close(spdk);
	CHECK_EQ(live_qpairs(), 0);
	fixture_close(&f);
	return 0;
}
