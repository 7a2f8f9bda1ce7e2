/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - opening and closing a run: memory, workers, engines. */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "compute.h"
#include "stage.h"
#include "why.h"

#define OPEN_DEADLINE_NS UINT64_C(30000000000)
#define CLOSE_DEADLINE_NS UINT64_C(2000000000)

bool gpuio_run_wait(struct gpuio_run *run, const uint32_t *count, uint32_t want, uint64_t deadline_ns)
{
	struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
	int rc = 0;

	while (*count < want && rc != ETIMEDOUT) {
		if (deadline_ns)
			rc = pthread_cond_timedwait(&run->report, &run->lock, &until);
		else
			rc = pthread_cond_wait(&run->report, &run->lock);
	}
	return *count >= want;
}

static void free_worker(struct gpuio_worker *w)
{
	free(w->slots);
	free(w->free);
	free(w->batch);
	free(w->done);
	free(w->heap.at);
	free(w->side);
	free(w->stage);
}

static void close_compute(struct gpuio_run *run)
{
	struct gpuio_device *device;
	struct gpuio_why unheard;

	if (!run->replay || !run->replay->compute)
		return;
	device = run->workers[0].side->device;
	if (gpuio_device_enter(device, &unheard) == 0)
		gpuio_compute_close(run->replay->compute);
	gpuio_device_leave(device);
}

static void free_run(struct gpuio_run *run)
{
	close_compute(run);
	if (run->locks_ready) {
		pthread_barrier_destroy(&run->barrier);
		pthread_cond_destroy(&run->report);
		pthread_cond_destroy(&run->go);
		pthread_mutex_destroy(&run->lock);
	}
	if (run->workers)
		for (uint32_t i = 0; i < run->spec.jobs; i++)
			free_worker(&run->workers[i]);
	free(run->workers);
	free(run->library);
	free(run->cpus);
	free(run->sq_cpus);
	free(run->arrivals);
	free(run->seeds);
	gpuio_replay_free(run->replay);
	free(run->gpus);
	free(run->gpu_library);
	free(run);
}

static void *copy_of(const void *from, size_t bytes)
{
	void *to = malloc(bytes);

	return to ? memcpy(to, from, bytes) : NULL;
}

static int make_worker(struct gpuio_run *run, uint32_t index, unsigned char *buffers)
{
	struct gpuio_worker *w = &run->workers[index];
	uint32_t slots = w->job.slots;
	uint64_t stride = slot_stride(run->spec.block);

	w->run = run;
	w->job.spec = &run->spec;
	w->job.engine = run->engine;
	w->job.worker = index;
	w->job.ring_fd = -1;
	w->ticker = gpuio_ticker_of(&run->clock);
	w->slots = calloc(slots, sizeof(*w->slots));
	w->free = calloc(slots, sizeof(*w->free));
	w->batch = calloc(slots, sizeof(*w->batch));
	w->done = calloc(slots, sizeof(*w->done));
	if (!w->slots || !w->free || !w->batch || !w->done)
		return -ENOMEM;
	w->job.ios = w->slots;
	for (uint32_t i = 0; i < slots; i++) {
		if (w->side && !w->stage)
			w->slots[i].buf = (void *)(uintptr_t)side_address(w->side, i);
		else
			w->slots[i].buf = buffers + ((uint64_t)index * slots + i) * stride;
		w->slots[i].length = run->spec.block;
		w->slots[i].index = i;
		w->slots[i].fd = run->spec.fd;
		w->slots[i].result = GPUIO_UNUSED;
	}
	if (!run->replay)
		return gpuio_offsets_init(&w->offsets, &run->spec, index, NULL);
	w->heap.at = calloc(run->replay->heap_size, sizeof(*w->heap.at));
	return w->heap.at ? 0 : -ENOMEM;
}

static int make_replay(struct gpuio_run *run)
{
	const struct gpuio_replay_spec *spec = &run->spec.replay;

	run->seeds = spec->records ? copy_of(spec->seeds, spec->n_files * sizeof(*spec->seeds)) :
				     copy_of(&run->spec.pattern_seed, sizeof(run->spec.pattern_seed));
	if (!run->seeds)
		return -ENOMEM;
	if (!spec->records)
		return 0;
	run->replay = gpuio_replay_new(spec, run->spec.jobs);
	return run->replay ? 0 : -ENOMEM;
}

static int make_locks(struct gpuio_run *run)
{
	pthread_condattr_t attr;

	if (pthread_barrier_init(&run->barrier, NULL, run->spec.jobs))
		return -ENOMEM;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->go, NULL);
	pthread_cond_init(&run->report, &attr);
	pthread_condattr_destroy(&attr);
	run->locks_ready = true;
	return 0;
}

/* The caller's lists may go once the run is open. */
static int copy_lists(struct gpuio_run *run, const struct gpuio_spec *spec)
{
	size_t jobs = spec->jobs;

	if (spec->cpus)
		run->spec.cpus = run->cpus = copy_of(spec->cpus, jobs * sizeof(*spec->cpus));
	if (spec->sq_cpus)
		run->spec.sq_cpus = run->sq_cpus = copy_of(spec->sq_cpus, jobs * sizeof(*spec->sq_cpus));
	if (spec->arrivals)
		run->spec.arrivals = run->arrivals = copy_of(spec->arrivals, spec->n_arrivals * sizeof(*spec->arrivals));
	if (spec->library)
		run->spec.library = run->library = strdup(spec->library);
	if (spec->gpu.ordinals)
		run->spec.gpu.ordinals = run->gpus = copy_of(spec->gpu.ordinals, jobs * sizeof(*spec->gpu.ordinals));
	if (spec->gpu.library)
		run->spec.gpu.library = run->gpu_library = strdup(spec->gpu.library);
	return (spec->cpus && !run->cpus) || (spec->sq_cpus && !run->sq_cpus) || (spec->arrivals && !run->arrivals) ||
	       (spec->library && !run->library) || (spec->gpu.ordinals && !run->gpus) ||
	       (spec->gpu.library && !run->gpu_library) ? -ENOMEM : 0;
}

/* A part of each GPU's memory for each of its workers; `staged`: and host memory that is copied from and to. */
static int share_gpus(struct gpuio_run *run, bool staged, struct gpuio_gpus *gpus, struct gpuio_why *why)
{
	uint64_t stride = slot_stride(run->spec.block), each = gpuio_side_bytes(stride, run->workers[0].job.slots);
	int rc = 0;

	for (uint32_t i = 0; i < run->spec.jobs; i++) {
		struct gpuio_worker *w = &run->workers[i];

		w->side = calloc(1, sizeof(*w->side));
		if (!w->side)
			return -ENOMEM;
		w->side->stride = stride;
		w->side->kernel = run->spec.gpu.check == GPUIO_GPU_KERNEL && engine_moves_data(run->engine);
		rc = gpuio_gpus_device(gpus, w->job.gpu, &w->side->device, why);
		/* Here, before there are threads: a GPU's workers share its kernels. */
		if (rc == 0 && w->side->kernel)
			rc = gpuio_device_kernels(w->side->device, why);
		if (rc)
			return rc;
		w->job.device = w->side->device;
		if (staged) {
			w->stage = calloc(1, sizeof(*w->stage));
			if (!w->stage)
				return -ENOMEM;
		}
	}
	for (uint32_t i = 0; rc == 0 && i < run->spec.jobs; i++) {
		struct gpuio_device *device = run->workers[i].side->device;
		uint64_t workers = 0;

		for (uint32_t k = 0; k < run->spec.jobs; k++)
			if (run->workers[k].side->device == device)
				run->workers[k].side->base = each * workers++;
		rc = gpuio_device_enter(device, why);
		if (rc == 0)
			rc = gpuio_device_reserve(device, each * workers, why);
	}
	for (uint32_t i = 0; rc == 0 && i < run->spec.jobs; i++)
		run->workers[i].side->base += run->workers[i].side->device->memory;
	return rc;
}

static int take_gpus(struct gpuio_run *run, bool staged, struct gpuio_why *why)
{
	struct gpuio_gpus *gpus;
	int rc = gpuio_pool_gpus(run->spec.pool, run->spec.gpu.library, &gpus, why);

	if (rc)
		return rc;
	rc = share_gpus(run, staged, gpus, why);
	if (rc == 0 && staged)
		rc = gpuio_pool_pin(run->spec.pool, why);
	if (rc == 0 && run->replay && run->spec.gpu.compute == GPUIO_COMPUTE_KERNEL) {
		struct gpuio_device *device = run->workers[0].side->device;

		rc = gpuio_device_enter(device, why);
		if (rc == 0)
			rc = gpuio_compute_open(device, &run->replay->compute, why);
	}
	gpuio_gpus_leave(gpus);
	return rc;
}

/* A run with everything the windows need, but no thread yet and no buffers taken when it fails. */
static int make_run(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_run **out,
		    struct gpuio_why *why)
{
	struct gpuio_run *run = calloc(1, sizeof(*run));
	uint64_t bytes = slot_stride(spec->block); /* at most 2^30 */
	unsigned char *base;
	uint32_t slots;
	int rc = -ENOMEM;
	bool staged;

	*out = run;
	if (!run)
		return rc;
	run->spec = *spec;
	run->engine = engine;
	run->clock = *spec->clock;
	run->spec.clock = &run->clock;
	run->spec.engine = engine->name;
	gpuio_hist_reset(&run->slat);
	gpuio_hist_reset(&run->clat);
	gpuio_hist_reset(&run->lat);
	gpuio_hist_reset(&run->lag);
	gpuio_hist_reset(&run->response);
	gpuio_hist_reset(&run->copy);
	gpuio_hist_reset(&run->total);
	if (copy_lists(run, spec) || make_replay(run))
		return rc;
	run->workers = aligned_alloc(64, spec->jobs * sizeof(*run->workers));
	if (!run->workers)
		return rc;
	memset(run->workers, 0, spec->jobs * sizeof(*run->workers));
	rc = make_locks(run);
	if (rc)
		return rc;
	staged = spec->gpu.ordinals && !(engine->flags & GPUIO_ENGINE_NEEDS_GPU);
	slots = spec->depth + (staged ? gpuio_stage_ahead(spec, engine->flags & GPUIO_ENGINE_SYNC) : 0);
	for (uint32_t i = 0; i < spec->jobs; i++) {
		run->workers[i].job.slots = slots;
		run->workers[i].job.gpu = spec->gpu.ordinals ? spec->gpu.ordinals[i] : -1;
	}
	bytes *= spec->gpu.ordinals && !staged ? 0 : (uint64_t)slots * spec->jobs;
	rc = gpuio_pool_take(spec->pool, bytes, &base, why);
	if (rc)
		return rc;
	if (spec->gpu.ordinals)
		rc = take_gpus(run, staged, why);
	for (uint32_t i = 0; rc == 0 && i < spec->jobs; i++)
		rc = make_worker(run, i, base);
	if (rc)
		gpuio_pool_give_back(spec->pool);
	return rc;
}

static int start_workers(struct gpuio_run *run, struct gpuio_why *why)
{
	sigset_t all, old;
	int rc = 0;

	/* Signals are for the caller's threads: here they would only interrupt I/O. Not so those of a crash: blocked, they would
	 * kill without the word that a handler of the process (Python's faulthandler) has to say. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (uint32_t i = 0; i < run->spec.jobs && rc == 0; i++) {
		rc = pthread_create(&run->workers[i].thread, NULL, gpuio_worker_main, &run->workers[i]);
		run->workers[i].started = rc == 0;
		if (rc)
			gpuio_say(why, "thread %" PRIu32 " of %" PRIu32 " cannot be started (%s): lower jobs, or raise ulimit -u or "
				  "the container's pids limit", i + 1, run->spec.jobs, strerror(rc));
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

/* Waits until every started worker has opened its engine; the first failure decides. */
static int await_open(struct gpuio_run *run, struct gpuio_why *why)
{
	uint32_t started = 0;
	bool opened;

	while (started < run->spec.jobs && run->workers[started].started)
		started++;
	pthread_mutex_lock(&run->lock);
	opened = gpuio_run_wait(run, &run->opened, started, mono_ns() + OPEN_DEADLINE_NS);
	pthread_mutex_unlock(&run->lock);
	if (!opened) {
		gpuio_say(why, "the engine %s did not open within %u s", run->engine->name,
			  (unsigned)(OPEN_DEADLINE_NS / 1000000000u));
		return -ETIMEDOUT;
	}
	run->effective = UINT32_MAX;
	for (uint32_t i = 0; i < started; i++) {
		const struct gpuio_worker *w = &run->workers[i];

		if (w->open_error) {
			if (w->job.why.text[0])
				*why = w->job.why;
			else
				gpuio_say(why, "the engine %s cannot be opened in worker %" PRIu32 " (%s)", run->engine->name, i,
					  strerror(-w->open_error));
			return w->open_error;
		}
		run->effective &= w->job.effective;
		if (!run->knob_why.text[0])
			run->knob_why = w->job.why;
	}
	return 0;
}

int gpuio_open(const struct gpuio_spec *spec, struct gpuio_run **out, struct gpuio_why *why)
{
	struct gpuio_why unheard;
	const struct gpuio_engine *engine;
	struct gpuio_run *run;
	int rc, opened;

	if (!why)
		why = &unheard;
	gpuio_say(why, "%s", "");
	*out = NULL;
	engine = spec->engine ? gpuio_engine_find(spec->engine) : NULL;
	if (!engine) {
		gpuio_say(why, "there is no engine named %s", spec->engine ? spec->engine : "(null)");
		return -ENOENT;
	}
	rc = gpuio_spec_check(spec, engine, why);
	if (rc)
		return rc;
	rc = make_run(spec, engine, &run, why);
	if (rc) {
		if (!why->text[0])
			gpuio_say(why, "there is not enough memory for %" PRIu32 " jobs of depth %" PRIu32, spec->jobs, spec->depth);
		if (run)
			free_run(run);
		return rc;
	}
	rc = start_workers(run, why);
	opened = await_open(run, rc ? &unheard : why);
	if (rc == 0)
		rc = opened;
	if (rc) {
		gpuio_close(run);
		return rc;
	}
	*out = run;
	return 0;
}

int gpuio_close(struct gpuio_run *run)
{
	uint32_t started = 0;
	bool gone;

	if (!run)
		return 0;
	while (started < run->spec.jobs && run->workers[started].started)
		started++;
	pthread_mutex_lock(&run->lock);
	run->quit = true;
	pthread_cond_broadcast(&run->go);
	gone = gpuio_run_wait(run, &run->gone, started, mono_ns() + CLOSE_DEADLINE_NS);
	pthread_mutex_unlock(&run->lock);
	if (!gone)
		return -EBUSY;
	for (uint32_t i = 0; i < started; i++)
		pthread_join(run->workers[i].thread, NULL);
	gpuio_pool_give_back(run->spec.pool);
	free_run(run);
	return 0;
}

uint32_t gpuio_effective_knobs(const struct gpuio_run *run)
{
	return run->effective & ~(uint32_t)GPUIO_KNOB_REQUIRE;
}

void gpuio_knob_reason(const struct gpuio_run *run, struct gpuio_why *why)
{
	*why = run->knob_why;
}

void gpuio_facts(const struct gpuio_run *run, struct gpuio_why *facts)
{
	*facts = run->workers[0].job.facts;
}

uint32_t gpuio_slots(const struct gpuio_run *run)
{
	return run->workers[0].job.slots;
}

int gpuio_ring_fd(const struct gpuio_run *run, uint32_t worker)
{
	return worker < run->spec.jobs ? run->workers[worker].job.ring_fd : -1;
}
