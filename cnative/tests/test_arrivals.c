/* SPDX-License-Identifier: Apache-2.0 */
/* The open loop: every arrival is served, none before its time, and an engine with a clock of its own agrees. */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>

#include "fixture.h"

#define GAP_NS 100000u /* 10,000 arrivals a second */

static uint64_t schedule[4096];

static void every_gap(struct fixture *f, uint64_t n, uint64_t gap)
{
	for (uint64_t i = 0; i < n; i++)
		schedule[i] = i * gap;
	f->spec.arrivals = schedule;
	f->spec.n_arrivals = n;
}

static void serves_all(const char *engine, uint32_t jobs, uint32_t depth, uint32_t batch, uint32_t wait)
{
	const uint64_t n = 1000;
	struct gpuio_worker_result parts[3];
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = engine;
	f.spec.jobs = jobs;
	f.spec.depth = depth;
	f.spec.submit_batch = batch;
	f.spec.reap_batch = batch;
	f.spec.arrival_wait = wait;
	f.spec.verify = 1;
	every_gap(&f, n, GAP_NS);
	run = fixture_run(&f);
	for (int repeat = 0; repeat < 2; repeat++) {
		const struct gpuio_hist *lag, *lat, *response;
		double sum;

		w = fixture_window(run, n);
		lag = gpuio_lag(run);
		lat = gpuio_lat(run);
		response = gpuio_response(run);
		CHECK_EQ(w.ios, n);
		CHECK_EQ(w.scheduled, n);
		CHECK_EQ(w.errors + w.short_ios + w.bad, 0);
		CHECK_EQ(lag->count, n);
		CHECK_EQ(lat->count, n);
		CHECK_EQ(response->count, n);
		CHECK(w.late <= n);
		/* The last one is not sent before its time. */
		CHECK(w.end_ns - w.start_ns >= (n - 1) * GAP_NS);
		/* What a user waits for is the lag and the service time, to the rounding of three conversions each. */
		sum = (double)lag->sum_ns + (double)lat->sum_ns - (double)response->sum_ns;
		CHECK(fabs(sum) <= 3.0 * (double)n);
		gpuio_worker_results(run, parts);
		for (uint32_t i = 0; i < jobs; i++)
			CHECK_EQ(parts[i].ios, n / jobs + (i < n % jobs));
		CHECK(w.max_in_flight >= 1 && w.max_in_flight <= (uint64_t)jobs * depth);
		CHECK(w.mean_in_flight >= 0 && w.mean_in_flight <= (double)w.max_in_flight);
	}
	/* A window is the whole schedule. */
	CHECK_EQ(gpuio_window(run, n - 1, &w, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "does not fit a schedule of 1000 arrivals"));
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* The engine's own record of when requests reached it. */
static void no_drift(void)
{
	const uint64_t n = 500;
	const struct gpuio_engine *engine;
	uint64_t *began, last, earliest = UINT64_MAX;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	unsigned *count;
	void *handle;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./clockwork.so", &engine, &f.why), 0);
	handle = dlopen("./clockwork.so", RTLD_NOW);
	CHECK(handle);
	began = dlsym(handle, "clockwork_began");
	count = dlsym(handle, "clockwork_count");
	CHECK(began && count);
	f.spec.engine = "clockwork";
	f.spec.arrival_wait = GPUIO_WAIT_SPIN;
	setenv("CLOCKWORK_US", "0", 1);
	every_gap(&f, n, 10 * GAP_NS);
	run = fixture_run(&f);
	w = fixture_window(run, n);
	CHECK_EQ(*count, n);
	for (uint64_t i = 0; i < n; i++) {
		/* Never before its time: a schedule that gained time would be seen here, one that lost it below. */
		uint64_t due = w.start_ns + schedule[i];
		uint64_t behind = began[i] + 5000 - due; /* the two clocks agree to 50 ppm of half a second and better */

		CHECK(began[i] + 5000 >= due);
		if (behind < earliest)
			earliest = behind;
	}
	/* In the last quarter, too, some arrival was on time: whoever drifts is late with all of them. */
	last = UINT64_MAX;
	for (uint64_t i = n - n / 4; i < n; i++) {
		uint64_t behind = began[i] + 5000 - (w.start_ns + schedule[i]);

		if (behind < last)
			last = behind;
	}
	CHECK(last < earliest + 1000000);
	CHECK_EQ(gpuio_close(run), 0);

	/* Requests of 300 us each arrive every 100 us at a depth of one: the queue grows, and is told as lag. */
	setenv("CLOCKWORK_US", "300", 1);
	every_gap(&f, 100, GAP_NS);
	run = fixture_run(&f);
	w = fixture_window(run, 100);
	CHECK_EQ(w.ios, 100);
	CHECK(w.late >= 95);
	CHECK(gpuio_lag(run)->max_ns >= 19 * 1000000u); /* the last one: 99 x 200 us behind */
	CHECK(gpuio_lat(run)->min_ns >= 300000);
	CHECK(gpuio_response(run)->max_ns >= gpuio_lag(run)->max_ns + 300000 - 1000);
	CHECK(w.mean_in_flight > 0.5); /* it never rests */
	CHECK_EQ(gpuio_close(run), 0);
	dlclose(handle);
	fixture_close(&f);
}

/* Long pauses: the stop flag and the deadline are seen while nothing arrives. */
static void ends_in_a_pause(void)
{
	uint32_t stop = 1;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "libaio";
	f.spec.depth = 4;
	every_gap(&f, 2, UINT64_C(60000000000));
	f.spec.timeout_ns = 200000000;
	run = fixture_run(&f);
	CHECK_EQ(gpuio_window(run, 2, &w, &f.why), -ETIMEDOUT);
	CHECK_EQ(w.stuck_worker, -1);
	CHECK_EQ(w.ios, 1);
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.stop = &stop;
	f.spec.arrival_wait = GPUIO_WAIT_SPIN;
	run = fixture_run(&f);
	w = fixture_window(run, 2);
	CHECK_EQ(w.stopped, 1);
	CHECK_EQ(w.ios, 0);
	CHECK_EQ(w.scheduled, 2);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void writes_are_synced(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "libaio";
	f.spec.depth = 4;
	f.spec.read_percent = 0;
	f.spec.sync = GPUIO_SYNC_EVERY;
	f.spec.sync_every = 10;
	every_gap(&f, 35, 1000);
	run = fixture_run(&f);
	w = fixture_window(run, 35);
	CHECK_EQ(w.writes, 35);
	CHECK_EQ(w.syncs, 3);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void refuses(void)
{
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	every_gap(&f, 3, 10);
	schedule[1] = 21;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "arrival 2 at 20 ns comes before"));
	every_gap(&f, 2, UINT64_C(2000000000000000));
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "11 days"));
	f.spec.n_arrivals = 0;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	f.spec.arrivals = NULL;
	f.spec.arrival_wait = 2;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "arrival wait 2"));
	fixture_close(&f);
}

int main(void)
{
	const struct gpuio_engine *engine;
	struct gpuio_why why;

	CHECK_EQ(gpuio_engine_load("./skeleton.so", &engine, &why), 0);
	CHECK_EQ(gpuio_engine_load("./stingy.so", &engine, &why), 0);
	for (uint32_t wait = GPUIO_WAIT_SLEEP; wait <= GPUIO_WAIT_SPIN; wait++) {
		serves_all("null", 1, 32, 1, wait);
		serves_all("psync", 2, 1, 1, wait);
		serves_all("libaio", 1, 8, 1, wait);
		serves_all("libaio", 3, 4, 4, wait);
		serves_all("skeleton", 1, 8, 2, wait); /* an engine that cannot wait until a deadline */
		serves_all("mmap", 1, 1, 1, wait);
	}
	no_drift();
	ends_in_a_pause();
	writes_are_synced();
	refuses();
	return 0;
}
