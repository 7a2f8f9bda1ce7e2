/* SPDX-License-Identifier: Apache-2.0 */
#include "compute.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "kernels.h"
#include "why.h"

#define MIB (UINT64_C(1) << 20)
#define VECTOR 16u
/* More than any GPU's cache, so that each round reads memory. */
#define ARENA_BYTES (256 * MIB)
#define LEAST_ARENA_BYTES (16 * MIB)
#define STOP_BYTES 256u
#define TRIES 5u
/* Clocks of an idle GPU rise within some tens of milliseconds of work (tried on an H200). */
#define WARM_NS 100000000.0
#define FIRST_ROUNDS 64u
#define SHORT_ROUNDS 32u
#define LONG_NS 5000000.0
#define LONGEST_CALIBRATION_NS UINT64_C(20000000000)

enum { ATTRIBUTE_MULTIPROCESSORS = 16 };

struct step {
	cuda_event begin, end;
};

struct gpuio_compute {
	struct gpuio_device *device;
	cuda_stream stream;
	struct step steps[GPUIO_STEPS + 1]; /* the last one that ended is kept: the gap behind it counts from its end */
	uint32_t first, pending;            /* steps[first .. first + pending) */
	bool follows;                       /* steps[first - 1] has ended */
	unsigned made;                      /* of the events */
};

static struct step *step_at(struct gpuio_compute *c, uint32_t place)
{
	return &c->steps[place % (GPUIO_STEPS + 1)];
}

static int launch(struct gpuio_compute *c, struct step *step, uint64_t rounds, struct gpuio_why *why)
{
	struct gpuio_device *d = c->device;
	const struct gpuio_cuda *cuda = d->cuda;
	uint32_t vectors = (uint32_t)(d->arena_bytes / VECTOR);
	cuda_ptr stop = d->arena + d->arena_bytes;
	void *params[] = {&d->arena, &vectors, &rounds, &stop};
	int rc = cuda->event_record(step->begin, c->stream);

	if (rc == CUDA_SUCCESS)
		rc = cuda->launch_kernel(d->work, d->work_blocks, 1, 1, GPUIO_WORK_THREADS, 1, 1, 0, c->stream, params, NULL);
	if (rc == CUDA_SUCCESS)
		rc = cuda->event_record(step->end, c->stream);
	return gpuio_cuda_say(cuda, rc, why, "computing on GPU %d", d->ordinal);
}

static int elapsed(const struct gpuio_compute *c, cuda_event from, cuda_event to, double *ns, struct gpuio_why *why)
{
	float ms = 0.0f;
	int rc = gpuio_cuda_say(c->device->cuda, c->device->cuda->event_elapsed_time(&ms, from, to), why, "timing a step on GPU %d",
				c->device->ordinal);

	*ns = ms > 0.0f ? (double)ms * 1e6 : 0.0;
	return rc;
}

static int run_once(struct gpuio_compute *c, uint64_t rounds, double *ns, struct gpuio_why *why)
{
	struct step *step = step_at(c, c->first);
	int rc = launch(c, step, rounds, why);

	if (rc == 0)
		rc = gpuio_cuda_say(c->device->cuda, c->device->cuda->stream_synchronize(c->stream), why, "computing on GPU %d",
				    c->device->ordinal);
	return rc ? rc : elapsed(c, step->begin, step->end, ns, why);
}

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int median_of(struct gpuio_compute *c, uint64_t rounds, double *ns, struct gpuio_why *why)
{
	double found[TRIES];
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < TRIES; i++)
		rc = run_once(c, rounds, &found[i], why);
	if (rc)
		return rc;
	qsort(found, TRIES, sizeof(*found), ascending);
	*ns = found[TRIES / 2];
	return 0;
}

static int warm(struct gpuio_compute *c, uint64_t *rounds, struct gpuio_why *why)
{
	uint64_t until = mono_ns() + LONGEST_CALIBRATION_NS;
	double spent = 0.0, ns = 0.0;

	*rounds = FIRST_ROUNDS;
	while (spent < WARM_NS && mono_ns() < until) {
		int rc = run_once(c, *rounds, &ns, why);

		if (rc)
			return rc;
		spent += ns;
		if (ns < LONG_NS / 2)
			*rounds *= 2;
	}
	return 0;
}

/* Time = fixed + rounds x each, from two lengths. */
static int calibrate(struct gpuio_compute *c, struct gpuio_why *why)
{
	struct gpuio_device *d = c->device;
	double few = 0.0, many = 0.0;
	uint64_t rounds;
	int rc = warm(c, &rounds, why);

	if (rc == 0)
		rc = median_of(c, SHORT_ROUNDS, &few, why);
	if (rc == 0)
		rc = median_of(c, rounds, &many, why);
	if (rc)
		return rc;
	if (rounds <= SHORT_ROUNDS || many <= few) {
		gpuio_say(why, "GPU %d took %.0f ns for %u rounds of work and %.0f ns for %llu: its time cannot be foretold", d->ordinal, few,
			  SHORT_ROUNDS, many, (unsigned long long)rounds);
		return -ERANGE;
	}
	d->round_ns = (many - few) / (double)(rounds - SHORT_ROUNDS);
	d->fixed_ns = few - SHORT_ROUNDS * d->round_ns;
	if (d->fixed_ns < 0.0)
		d->fixed_ns = 0.0;
	return 0;
}

static int reserve_arena(struct gpuio_device *d, struct gpuio_why *why)
{
	const struct gpuio_cuda *cuda = d->cuda;
	int multiprocessors = 0, rc;

	if (d->arena)
		return 0;
	rc = cuda->device_get_attribute(&multiprocessors, ATTRIBUTE_MULTIPROCESSORS, d->device);
	d->work_blocks = (multiprocessors > 0 ? (unsigned)multiprocessors : 1) * GPUIO_WORK_BLOCKS;
	d->arena_bytes = ARENA_BYTES;
	while (rc == CUDA_SUCCESS && (rc = cuda->mem_alloc(&d->arena, d->arena_bytes + STOP_BYTES)) == CUDA_OUT_OF_MEMORY &&
	       d->arena_bytes > LEAST_ARENA_BYTES) {
		d->arena_bytes /= 2;
		rc = CUDA_SUCCESS;
	}
	if (rc == CUDA_SUCCESS)
		rc = cuda->memset_bytes(d->arena, 0, d->arena_bytes + STOP_BYTES);
	return gpuio_cuda_say(cuda, rc, why, "allocating memory to compute on, on GPU %d", d->ordinal);
}

static int make_events(struct gpuio_compute *c)
{
	cuda_event *all[2 * (GPUIO_STEPS + 1)];
	int rc = CUDA_SUCCESS;

	for (uint32_t i = 0; i < GPUIO_STEPS + 1; i++) {
		all[2 * i] = &c->steps[i].begin;
		all[2 * i + 1] = &c->steps[i].end;
	}
	while (rc == CUDA_SUCCESS && c->made < 2 * (GPUIO_STEPS + 1)) {
		rc = c->device->cuda->event_create(all[c->made], 0);
		c->made += rc == CUDA_SUCCESS;
	}
	return rc;
}

int gpuio_compute_open(struct gpuio_device *d, struct gpuio_compute **out, struct gpuio_why *why)
{
	struct gpuio_compute *c = calloc(1, sizeof(*c));
	int rc = c ? gpuio_device_kernels(d, why) : -ENOMEM;

	*out = NULL;
	if (rc == 0)
		rc = reserve_arena(d, why);
	if (rc) {
		free(c);
		return rc;
	}
	c->device = d;
	rc = gpuio_cuda_say(d->cuda, d->cuda->stream_create(&c->stream, CUDA_STREAM_NON_BLOCKING), why, "making a stream on GPU %d",
			    d->ordinal);
	if (rc)
		c->stream = NULL;
	else
		rc = gpuio_cuda_say(d->cuda, make_events(c), why, "making an event on GPU %d", d->ordinal);
	if (rc == 0 && d->round_ns <= 0.0)
		rc = calibrate(c, why);
	if (rc) {
		gpuio_compute_close(c);
		return rc;
	}
	*out = c;
	return 0;
}

void gpuio_compute_close(struct gpuio_compute *c)
{
	struct gpuio_why unheard;

	if (!c)
		return;
	gpuio_compute_abort(c, &unheard);
	if (c->stream)
		c->device->cuda->stream_synchronize(c->stream);
	for (unsigned i = 0; i < c->made; i++)
		c->device->cuda->event_destroy(i % 2 ? c->steps[i / 2].end : c->steps[i / 2].begin);
	if (c->stream)
		c->device->cuda->stream_destroy(c->stream);
	free(c);
}

uint32_t gpuio_compute_pending(const struct gpuio_compute *c)
{
	return c->pending;
}

void gpuio_compute_tune(struct gpuio_compute *c, uint64_t ns, double took_ns)
{
	double fixed = c->device->fixed_ns, asked = (double)ns - fixed, took = took_ns - fixed;

	/* Far off, or no longer than an empty kernel: what was found at the opening is the better guess. */
	if (asked > fixed && took > asked / 4 && took < asked * 4)
		c->device->round_ns *= took / asked;
}

void gpuio_compute_rewind(struct gpuio_compute *c)
{
	c->follows = false;
}

int gpuio_compute_begin(struct gpuio_compute *c, uint64_t ns, struct gpuio_why *why)
{
	double work = (double)ns - c->device->fixed_ns;
	uint64_t rounds = work > 0.0 ? (uint64_t)(work / c->device->round_ns + 0.5) : 0;
	int rc = launch(c, step_at(c, c->first + c->pending), rounds, why);

	c->pending += rc == 0;
	return rc;
}

int gpuio_compute_end(struct gpuio_compute *c, uint64_t *gap_ns, uint64_t *took_ns, struct gpuio_why *why)
{
	struct step *step = step_at(c, c->first);
	double gap = 0.0, took = 0.0;
	int rc = c->device->cuda->event_query(step->end);

	if (rc == CUDA_NOT_READY)
		return 0;
	rc = gpuio_cuda_say(c->device->cuda, rc, why, "computing on GPU %d", c->device->ordinal);
	if (rc == 0)
		rc = elapsed(c, step->begin, step->end, &took, why);
	if (rc == 0 && c->follows)
		rc = elapsed(c, step_at(c, c->first + GPUIO_STEPS)->end, step->begin, &gap, why);
	if (rc)
		return rc;
	*gap_ns = (uint64_t)(gap + 0.5);
	*took_ns = (uint64_t)(took + 0.5);
	c->first = (c->first + 1) % (GPUIO_STEPS + 1);
	c->pending--;
	c->follows = true;
	return 1;
}

int gpuio_compute_abort(struct gpuio_compute *c, struct gpuio_why *why)
{
	const struct gpuio_cuda *cuda = c->device->cuda;
	cuda_ptr stop = c->device->arena + c->device->arena_bytes;
	int rc, again;

	if (!c->pending)
		return 0;
	/* Copies go beside a kernel; a memset could have to wait for it. */
	rc = cuda->memcpy_to_device(stop, &(uint32_t){1}, sizeof(uint32_t));
	again = cuda->stream_synchronize(c->stream);
	if (rc == CUDA_SUCCESS)
		rc = again;
	again = cuda->memcpy_to_device(stop, &(uint32_t){0}, sizeof(uint32_t));
	c->pending = 0;
	c->follows = false;
	return gpuio_cuda_say(cuda, rc == CUDA_SUCCESS ? again : rc, why, "ending what GPU %d computes", c->device->ordinal);
}
