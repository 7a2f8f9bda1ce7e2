/* SPDX-License-Identifier: Apache-2.0 */
/* The family of rings under the sanitizers: each kind moves what it should, in closed and open loop. */
#include <errno.h>
#include <unistd.h>

#include "fixture.h"

#define FILE_BYTES (UINT64_C(4) << 20)
#define SKIPPED 77

static const uint32_t knob_sets[] = {
	0,
	GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES,
	GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT,
	GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES | GPUIO_KNOB_SINGLE_ISSUER,
};

static void moves(const char *engine, uint32_t knobs, uint32_t batch)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	uint64_t checked, bad, first;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = engine;
	f.spec.jobs = 2;
	f.spec.depth = 13; /* the ring has 16 places */
	f.spec.submit_batch = f.spec.reap_batch = batch;
	f.spec.knobs = knobs;
	f.spec.verify = 1;
	f.spec.sq_idle_ms = 2;
	run = fixture_run(&f);
	for (int repeat = 0; repeat < 3; repeat++) {
		w = fixture_window(run, 1500);
		CHECK_EQ(w.ios, 1500);
		CHECK_EQ(w.verified, 1500);
		CHECK_EQ(w.bad + w.errors + w.short_ios, 0);
		CHECK(w.mean_in_flight > 0 && w.mean_in_flight <= 26.0);
		usleep(5000); /* long enough for a poller to fall asleep */
	}
	CHECK(gpuio_ring_fd(run, 0) >= 0 && gpuio_ring_fd(run, 1) >= 0 && gpuio_ring_fd(run, 2) == -1);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_lay_out(f.fd, FILE_BYTES, 8);
	f.spec.read_percent = 0;
	f.spec.verify = 0;
	run = fixture_run(&f);
	w = fixture_window(run, FILE_BYTES / 4096);
	CHECK_EQ(w.writes, FILE_BYTES / 4096);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK_EQ(checked, 26);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void on_schedule(const char *engine, uint32_t knobs, uint32_t wait)
{
	uint64_t arrivals[500];
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	for (unsigned i = 0; i < 500; i++)
		arrivals[i] = i * UINT64_C(100000);
	fixture_open(&f, FILE_BYTES);
	f.spec.engine = engine;
	f.spec.depth = 8;
	f.spec.knobs = knobs;
	f.spec.verify = 1;
	f.spec.arrivals = arrivals;
	f.spec.n_arrivals = 500;
	f.spec.arrival_wait = wait;
	run = fixture_run(&f);
	w = fixture_window(run, 500);
	CHECK_EQ(w.ios, 500);
	CHECK_EQ(w.verified, strcmp(engine, "io_uring_nop") ? 500 : 0);
	CHECK_EQ(w.bad + w.errors, 0);
	CHECK_EQ(gpuio_response(run)->count, 500);
	CHECK(w.end_ns - w.start_ns >= arrivals[499]);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* Knobs that a ring with a poller cannot have are told, and refused when required. */
static void poller_knobs(void)
{
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = "io_uring_sqpoll";
	f.spec.depth = 4;
	f.spec.knobs = GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT | GPUIO_KNOB_REGISTERED_FILES;
	run = fixture_run(&f);
	CHECK_EQ(gpuio_effective_knobs(run), GPUIO_KNOB_REGISTERED_FILES);
	gpuio_knob_reason(run, &f.why);
	CHECK(mentions(&f.why, "io_uring_sqpoll does not have: single_issuer, merged_wait"));
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.knobs |= GPUIO_KNOB_REQUIRE;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENOTSUP);
	f.spec.knobs = 0;
	f.spec.sq_cpus = (const int32_t[]){4000};
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "cannot have CPU 4000"));
	fixture_close(&f);
}

/* The file of the test lies on a disk without poll queues, or is read through the cache: both cannot be polled. */
static void cannot_be_polled(const char *engine)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	int rc;

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = engine;
	f.spec.depth = 4;
	run = fixture_run(&f);
	rc = gpuio_window(run, 100, &w, &f.why);
	if (rc == 0) /* kernels before 6.12 complete by interrupt and say nothing */
		CHECK_EQ(w.ios + w.errors, 100);
	else
		CHECK_EQ(rc, -EOPNOTSUPP);
	if (rc)
		CHECK(mentions(&f.why, "nvme.poll_queues"));
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

int main(void)
{
	struct gpuio_why why;

	if (gpuio_engine_probe("io_uring", NULL, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return SKIPPED;
	}
	for (unsigned i = 0; i < sizeof(knob_sets) / sizeof(knob_sets[0]); i++) {
		moves("io_uring", knob_sets[i], 1);
		moves("io_uring", knob_sets[i], 5);
		on_schedule("io_uring", knob_sets[i], GPUIO_WAIT_SLEEP);
		on_schedule("io_uring", knob_sets[i], GPUIO_WAIT_SPIN);
	}
	on_schedule("io_uring_nop", GPUIO_KNOB_MERGED_WAIT, GPUIO_WAIT_SLEEP);
	if (gpuio_engine_probe("io_uring_iopoll", NULL, &why) == 0)
		cannot_be_polled("io_uring_iopoll");
	if (gpuio_engine_probe("io_uring_sqpoll", NULL, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 0;
	}
	cannot_be_polled("io_uring_full");
	moves("io_uring_sqpoll", 0, 1);
	moves("io_uring_sqpoll", GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES, 13);
	on_schedule("io_uring_sqpoll", 0, GPUIO_WAIT_SLEEP);
	on_schedule("io_uring_sqpoll", 0, GPUIO_WAIT_SPIN);
	poller_knobs();
	return 0;
}
