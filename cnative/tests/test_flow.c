/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, latencies and the in-flight counter, over engines whose behaviour is known. */
#include <dlfcn.h>
#include <math.h>

#include "fixture.h"
#include "process.h"

static void null_counts(uint32_t jobs, uint32_t depth, uint32_t batch, uint64_t ios)
{
	struct gpuio_worker_result *parts = calloc(jobs, sizeof(*parts));
	struct gpuio_window w;
	struct gpuio_run *run;
	uint64_t sum = 0;
	struct fixture f;

	CHECK(parts);
	fixture_open(&f, 1 << 20);
	f.spec.engine = "null";
	f.spec.fd = -1;
	f.spec.jobs = jobs;
	f.spec.depth = depth;
	f.spec.submit_batch = f.spec.reap_batch = batch;
	run = fixture_run(&f);
	for (int repeat = 0; repeat < 3; repeat++) {
		w = fixture_window(run, ios);
		CHECK_EQ(w.ios, ios);
		CHECK_EQ(w.bytes, ios * 4096);
		CHECK_EQ(w.errors + w.short_ios + w.verified + w.syncs, 0);
		CHECK_EQ(w.stuck_worker, -1);
		CHECK_EQ(gpuio_lat(run)->count, ios);
		CHECK_EQ(gpuio_slat(run)->count, ios);
		CHECK_EQ(gpuio_clat(run)->count, ios);
		CHECK(gpuio_slat(run)->sum_ns <= gpuio_lat(run)->sum_ns);
		CHECK(w.end_ns > w.start_ns);
		CHECK(w.max_in_flight <= (uint64_t)jobs * depth);
		gpuio_worker_results(run, parts);
		sum = 0;
		for (uint32_t i = 0; i < jobs; i++) {
			CHECK_EQ(parts[i].ios, ios / jobs + (i < ios % jobs));
			CHECK_EQ(parts[i].error, 0);
			CHECK_EQ(parts[i].cpu, -1);
			CHECK(parts[i].tid > 0);
			CHECK(parts[i].start_ns >= w.start_ns && parts[i].end_ns <= w.end_ns);
			sum += parts[i].cpu_ns;
		}
		CHECK(sum > 0 && sum <= w.cpu_ns + 10000000); /* a tick, see usage_counts_cpu */
		if (ios / jobs > depth) {
			CHECK(w.steady_ns > 0 && w.steady_ns <= w.end_ns - w.start_ns);
			CHECK(w.steady_ios > 0 && w.steady_ios < ios);
			CHECK(w.mean_in_flight > 0 && w.mean_in_flight <= (double)w.max_in_flight);
		} else {
			CHECK_EQ(w.steady_ns, 0);
			CHECK(w.mean_in_flight == 0);
		}
	}
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	free(parts);
}

/* An engine with room for three: the pressure is met by reaping, nothing is lost, and never more than three are out. */
static void back_pressure(void)
{
	const struct gpuio_engine *engine;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./stingy.so", &engine, &f.why), 0);
	f.spec.engine = "stingy";
	f.spec.depth = 16;
	f.spec.reap_batch = 2;
	for (unsigned way = 0; way < 4; way++) {
		bool merged = way % 2;

		f.spec.knobs = merged ? GPUIO_KNOB_MERGED_WAIT : 0;
		f.spec.submit_batch = way < 2 ? 8 : 1;
		run = fixture_run(&f);
		w = fixture_window(run, 10007);
		CHECK_EQ(w.ios, 10007);
		CHECK_EQ(w.max_in_flight, 3);
		CHECK(w.mean_in_flight > 0.0 && w.mean_in_flight <= 3.0);
		CHECK_EQ(gpuio_lat(run)->count, 10007);
		CHECK_EQ(gpuio_slat(run)->count, merged ? 0 : 10007);
		CHECK(gpuio_lat(run)->max_ns <= w.end_ns - w.start_ns); /* no request has another one's stamp */
		CHECK_EQ(gpuio_close(run), 0);
	}
	fixture_close(&f);
}

/* Whatever way requests are stamped, their latencies add up to what the engine saw by its own clock. */
static void latencies_are_the_engines(void)
{
	const struct gpuio_engine *engine;
	uint64_t *seen;
	void *library;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./uneven.so", &engine, &f.why), 0);
	library = dlopen("./uneven.so", RTLD_NOW | RTLD_NOLOAD);
	CHECK(library);
	seen = dlsym(library, "uneven_sum_ns");
	CHECK(seen);
	f.spec.engine = "uneven";
	f.spec.depth = 16;
	for (unsigned way = 0; way < 6; way++) {
		struct gpuio_window w;
		struct gpuio_run *run;
		uint64_t sum;

		f.spec.knobs = way % 2 ? GPUIO_KNOB_MERGED_WAIT : 0;
		f.spec.read_percent = way < 4 ? 100 : 50;
		f.spec.submit_batch = way < 2 ? 1 : 5;
		f.spec.reap_batch = way < 4 ? 1 : 16;
		run = fixture_run(&f);
		*seen = 0;
		w = fixture_window(run, 400);
		sum = gpuio_lat(run)->sum_ns;
		CHECK_EQ(w.ios, 400);
		CHECK_EQ(gpuio_lat(run)->count, 400);
		CHECK_EQ(gpuio_slat(run)->count, way % 2 ? 0 : 400);
		CHECK(gpuio_lat(run)->min_ns >= 2000000);
		CHECK(sum >= *seen);
		CHECK(sum - *seen <= *seen / 10); /* a stamp of another turn would be off by milliseconds each */
		CHECK_EQ(gpuio_close(run), 0);
	}
	dlclose(library);
	fixture_close(&f);
}

/* Time in syncs is not time at the asked depth: an engine whose requests take 1 ms and whose syncs take 30 ms. */
static void syncs_are_left_out(void)
{
	const struct gpuio_engine *engine;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./clockwork.so", &engine, &f.why), 0);
	setenv("CLOCKWORK_US", "1000", 1);
	f.spec.engine = "clockwork";
	f.spec.read_percent = 0;
	f.spec.sync = GPUIO_SYNC_EVERY;
	for (f.spec.sync_every = 1; f.spec.sync_every <= 7; f.spec.sync_every += 6) {
		double by_latencies;

		run = fixture_run(&f);
		w = fixture_window(run, 20);
		CHECK_EQ(w.syncs, 20 / f.spec.sync_every);
		CHECK(w.sync_ns >= w.syncs * 30000000);
		CHECK(w.steady_ns >= 19 * 1000000u);
		CHECK(w.steady_ns + w.sync_ns <= w.end_ns - w.start_ns);
		CHECK_EQ(w.steady_ios, 19); /* all but the last one, whose sending begins the end */
		CHECK(w.mean_in_flight > 0.5 && w.mean_in_flight <= 1.0); /* with the syncs at most 0.25 */
		by_latencies = w.steady_rate * (double)w.steady_lat_ns / (double)w.steady_ios / 1e9;
		CHECK(fabs(by_latencies / w.mean_in_flight - 1.0) < 0.05);
		CHECK_EQ(gpuio_close(run), 0);
	}
	fixture_close(&f);
}

/*
 * The process's CPU clock against a loop of known length in the same process. That clock can step back by up to a
 * scheduler tick (10 ms at 100 Hz) when a thread that ended before is taken off the books, as the tests before may leave.
 */
static void usage_counts_cpu(void)
{
	struct gpuio_usage from, to;
	struct gpuio_window w;
	uint64_t start = gpuio_thread_cpu_ns();

	memset(&w, 0, sizeof(w));
	gpuio_usage_read(&from);
	while (gpuio_thread_cpu_ns() - start < 60000000u)
		;
	gpuio_usage_read(&to);
	gpuio_usage_between(&from, &to, &w);
	CHECK(w.cpu_ns >= 50000000u);
	CHECK(w.user_ns + w.system_ns >= 30000000u); /* sampled by some kernels */
}

int main(void)
{
	null_counts(1, 1, 1, 1000);
	null_counts(1, 32, 1, 10000);
	null_counts(1, 32, 32, 10000);
	null_counts(1, 32, 7, 10001);
	null_counts(3, 8, 3, 10000);
	null_counts(3, 8, 1, 2); /* a worker without any I/O */
	null_counts(1, 64, 1, 64);
	back_pressure();
	latencies_are_the_engines();
	syncs_are_left_out();
	usage_counts_cpu();
	return 0;
}
