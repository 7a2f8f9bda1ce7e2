/* SPDX-License-Identifier: Apache-2.0 */
/* A device that stops answering, by an engine that sleeps: the window comes back and names the worker. */
#include <errno.h>
#include <time.h>

#include "fixture.h"

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
	struct gpuio_worker_result parts[2];
	const struct gpuio_engine *engine;
	uint64_t checked, bad, first;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	double from;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./sleeping.so", &engine, &f.why), 0);
	f.spec.engine = "sleeping";
	f.spec.jobs = 2;
	f.spec.timeout_ns = 200000000;

	/* Late, but back within the second of grace: the window is over its deadline, nobody is stuck. */
	setenv("SLEEPING_MS", "500", 1);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_window(run, 1000, &w, &f.why), -ETIMEDOUT);
	CHECK_EQ(w.stuck_worker, -1);
	CHECK_EQ(w.stopped, 1);
	CHECK_EQ(w.ios, 500 + 5);
	CHECK(mentions(&f.why, "not over within 0.2 s (505 done)"));
	CHECK_EQ(gpuio_window(run, 1, &w, &f.why), -ECANCELED);
	CHECK(mentions(&f.why, "close the run"));
	CHECK_EQ(gpuio_close(run), 0);

	/* A window in time is not disturbed by the deadline. */
	setenv("SLEEPING_MS", "1", 1);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_window(run, 0, &w, &f.why), -EINVAL);
	w = fixture_window(run, 1000);
	CHECK_EQ(w.ios, 1000);
	CHECK_EQ(gpuio_close(run), 0);

	/* Stuck for longer than anybody waits. */
	setenv("SLEEPING_MS", "60000", 1);
	run = fixture_run(&f);
	from = seconds();
	CHECK_EQ(gpuio_window(run, 1000, &w, &f.why), -ETIMEDOUT);
	CHECK_EQ(w.stuck_worker, 1);
	CHECK(mentions(&f.why, "worker 1 of engine sleeping"));
	gpuio_worker_results(run, parts);
	CHECK_EQ(parts[0].ios, 500);
	CHECK_EQ(parts[1].error, -ETIMEDOUT);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK_EQ(checked, 0);
	CHECK_EQ(gpuio_close(run), -EBUSY);
	CHECK(seconds() - from < 30.0); /* far below the 60 s of sleep */
	/* Its buffers may still be written to: they are never handed out again. */
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EBUSY);
	gpuio_pool_free(f.pool);
	fflush(NULL);
	_Exit(0);
}
