/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that a GPU computes, with a stand-in for the CUDA driver: in order, each on what has been read, never two at once. */
#include "fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "standin/libcuda.h"

#define MIB (UINT64_C(1) << 20)
#define LIBRARY "./standin_libcuda.so"
#define GROUPS 12u
#define NEVER UINT64_MAX

static struct gpuio_record records[4 * GROUPS];
static struct gpuio_group groups[GROUPS];
static struct gpuio_group_result results[GROUPS];
static const int32_t gpus[4], two_gpus[4] = {0, 1, 0, 1};
static const uint64_t seed = 7;

static void *symbol(const char *name)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW), *found = handle ? dlsym(handle, name) : NULL;

	CHECK(found);
	return found;
}

static void slow_down(uint32_t times)
{
	void (*call)(uint32_t);

	*(void **)&call = symbol("standin_cuda_slow_down");
	call(times);
}

static struct standin_state look(void)
{
	struct standin_state now;
	void (*call)(struct standin_state *);

	*(void **)&call = symbol("standin_cuda_state");
	call(&now);
	return now;
}

/* One chain of groups of 4 records, each of which is computed on for `compute_ns`, and a second chain that computes nothing. */
static void open_chain(struct fixture *f, const char *engine, uint32_t jobs, uint32_t depth, uint32_t prefetch, uint64_t compute_ns)
{
	fixture_open(f, 4 * MIB);
	f->spec.engine = engine;
	f->spec.jobs = jobs;
	f->spec.depth = depth;
	f->spec.gpu = (struct gpuio_gpu_spec){.ordinals = gpus, .library = LIBRARY, .wait = GPUIO_WAIT_SPIN, .compute = GPUIO_COMPUTE_KERNEL};
	for (uint32_t i = 0; i < 4 * GROUPS; i++)
		records[i] = (struct gpuio_record){.offset = i * UINT64_C(4096), .length = 4096};
	for (uint32_t i = 0; i < GROUPS; i++) {
		uint32_t idle = i >= GROUPS - 2;

		groups[i] = (struct gpuio_group){.first = 4 * i, .time_ns = -1, .chain = idle, .compute_ns = idle ? 0 : compute_ns,
						 .prefetch = idle ? 0 : prefetch};
	}
	f->spec.replay = (struct gpuio_replay_spec){.records = records, .groups = groups, .n_records = 4 * GROUPS, .n_groups = GROUPS,
						    .n_chains = 2, .fds = &f->fd, .seeds = &seed, .n_files = 1};
}

static void check_steps(uint32_t n, uint32_t prefetch)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct gpuio_group_result *r = &results[i];

		CHECK(r->end_ns != NEVER && r->consume_ns != NEVER);
		CHECK(r->consume_ns + 2 >= r->end_ns);
		CHECK(r->compute_ns > 0);
		if (i > 0)
			CHECK(r->consume_ns + 2 >= results[i - 1].consume_ns + results[i - 1].compute_ns);
		if (prefetch == 0 && i > 0)
			CHECK(r->start_ns + 2 >= results[i - 1].consume_ns + results[i - 1].compute_ns);
		if (prefetch > 0 && i >= prefetch)
			CHECK(r->start_ns + 2 >= results[i - prefetch].end_ns);
	}
	for (uint32_t i = GROUPS - 2; i < GROUPS; i++)
		CHECK_EQ(results[i].compute_ns, 0);
}

static void computes_in_order(const char *engine, uint32_t jobs, uint32_t depth, uint32_t prefetch)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	uint64_t kernels;

	open_chain(&f, engine, jobs, depth, prefetch, 500000);
	f.spec.verify = 1;
	run = fixture_run(&f);
	kernels = look().kernels;
	for (int repeat = 0; repeat < 2; repeat++) {
		memset(results, 0, sizeof(results));
		CHECK_EQ(gpuio_replay(run, 0, GROUPS, results, &w, &f.why), 0);
		CHECK_EQ(w.ios, 4 * GROUPS);
		CHECK_EQ(w.verified, 4 * GROUPS);
		CHECK_EQ(w.errors + w.short_ios + w.bad, 0);
		check_steps(GROUPS - 2, prefetch);
	}
	/* A kernel for each step, and one for each read's check. */
	CHECK_EQ(look().kernels - kernels, 2 * (GROUPS - 2 + 4 * GROUPS));
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
	CHECK_EQ(look().events, 0);
	CHECK_EQ(look().streams, 0);
	CHECK_EQ(look().allocations, 0);
}

/* Something takes from the kernel while the window lasts: it shows, against the same kernel alone. */
static void shows_what_is_taken_from_it(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	double alone, tuned, sum = 0.0;

	open_chain(&f, "psync", 1, 1, 2, 2000000);
	run = fixture_run(&f);
	CHECK_EQ(gpuio_compute_alone(run, 2000000, 5, 0, &alone, &f.why), 0);
	CHECK(alone > 0.0);
	/* Whoever is three times slower is given as much less to do. */
	slow_down(3);
	CHECK_EQ(gpuio_compute_alone(run, 40000000, 3, 1, &alone, &f.why), 0);
	CHECK_EQ(gpuio_compute_alone(run, 40000000, 3, 0, &tuned, &f.why), 0);
	CHECK(alone > 80000000.0 && alone < 150000000.0 ? tuned < 0.8 * alone : true);
	slow_down(1);
	CHECK_EQ(gpuio_compute_alone(run, 2000000, 5, 0, &alone, &f.why), 0);
	slow_down(20);
	CHECK_EQ(gpuio_replay(run, 0, GROUPS, results, &w, &f.why), 0);
	slow_down(1);
	for (uint32_t i = 0; i < GROUPS - 2; i++)
		sum += (double)results[i].compute_ns;
	CHECK(sum / (GROUPS - 2) > 2.0 * alone);
	CHECK_EQ(gpuio_compute_alone(run, 1000, 0, 0, &alone, &f.why), -EINVAL);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static uint32_t stop;

static void *stop_soon(void *nothing)
{
	usleep(50000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	return nothing;
}

/* Steps of half a minute: a stop ends the one that runs, too. */
static void stops_in_the_middle(uint32_t prefetch)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	pthread_t thread;

	stop = 0;
	open_chain(&f, "psync", 2, 1, prefetch, UINT64_C(30000000000));
	f.spec.stop = &stop;
	run = fixture_run(&f);
	CHECK_EQ(pthread_create(&thread, NULL, stop_soon, NULL), 0);
	CHECK_EQ(gpuio_replay(run, 0, GROUPS, results, &w, &f.why), 0);
	pthread_join(thread, NULL);
	CHECK_EQ(w.stopped, prefetch < GROUPS);
	CHECK_EQ(results[0].compute_ns, 0);
	CHECK_EQ(results[2].consume_ns, NEVER);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void tells_what_fails(const char *fail, int code, const char *words)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	setenv("STANDIN_CUDA_FAIL", fail, 1);
	open_chain(&f, "psync", 2, 1, 2, 300000);
	if (gpuio_open(&f.spec, &run, &f.why) == 0) {
		CHECK_EQ(gpuio_replay(run, 0, GROUPS, results, &w, &f.why), code);
		CHECK(mentions(&f.why, words));
		CHECK_EQ(gpuio_close(run), 0);
	} else {
		CHECK(mentions(&f.why, words));
	}
	fixture_close(&f);
	unsetenv("STANDIN_CUDA_FAIL");
	CHECK_EQ(look().events, 0);
	CHECK_EQ(look().allocations, 0);
}

static void refuses(const char *words, void (*spoil)(struct fixture *))
{
	struct gpuio_run *run;
	struct fixture f;

	open_chain(&f, "psync", 2, 1, 2, 1000);
	spoil(&f);
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	CHECK(mentions(&f.why, words));
	fixture_close(&f);
}

static void two_consumers(struct fixture *f) { (void)f; groups[GROUPS - 1].compute_ns = 5; }
static void two_devices(struct fixture *f) { f->spec.gpu.ordinals = two_gpus; }
static void no_gpu(struct fixture *f) { f->spec.gpu.ordinals = NULL; }
static void unknown(struct fixture *f) { f->spec.gpu.compute = 2; }

int main(void)
{
	for (uint32_t prefetch = 0; prefetch <= 3; prefetch++) {
		computes_in_order("psync", 1, 1, prefetch);
		computes_in_order("psync", 3, 1, prefetch);
		computes_in_order("libaio", 2, 8, prefetch);
	}
	shows_what_is_taken_from_it();
	stops_in_the_middle(0);
	stops_in_the_middle(2);
	tells_what_fails("cuLaunchKernel:1:2", 0, "computing on GPU 0");
	tells_what_fails("cuEventElapsedTime:1:2", 0, "timing a step on GPU 0");
	tells_what_fails("cuLaunchKernel:40:2", -ENOMEM, "computing on GPU 0");
	refuses("chains 0 and 1 compute", two_consumers);
	refuses("the workers have GPU 0 and GPU 1", two_devices);
	refuses("name one", no_gpu);
	refuses("compute 2 is not known", unknown);
	return 0;
}
