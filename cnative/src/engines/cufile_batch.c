/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cufile_batch.c - cuFile's batch interface. A batch takes one submission at a time: with further ones while entries are under way, one of
 * them was seen never to be reported (libcufile 1.20, H200). So each submission gets a batch of its own, and depth is what all hold.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cufile.h"
#include "registry.h"
#include "why.h"

#define LOOK_NS 100000000L /* how long one wait lasts at most, so that a deadline is seen */

struct cufile_batch {
	void *handle;
	unsigned left; /* entries that are under way */
	const struct gpuio_cufile_lib *lib;
	pthread_t thread; /* ends it */
	bool ending;
};

struct cufile_batch_state {
	struct cufile_target target;
	unsigned nbatches, used, oldest;    /* used: those with entries under way, in a ring from the oldest on */
	struct cufile_batch *batches;
	struct cufile_batch_io *list;       /* of one submission */
	struct cufile_batch_event *events;
	struct gpuio_io **refused;          /* could not be sent; reaped with their error */
	unsigned nrefused;
};

static int batch_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_cufile_lib lib;
	int rc = gpuio_cufile_lib_open(&lib, library, why);

	if (rc == 0 && (!lib.batch_setup || !lib.batch_submit || !lib.batch_status || !lib.batch_destroy)) {
		gpuio_say(why, "this libcufile has no batch interface: use libcufile 1.2 (CUDA 11.6) or newer");
		rc = -ENOTSUP;
	}
	gpuio_cufile_lib_close(&lib);
	return rc;
}

static int make_batches(struct gpuio_job *job)
{
	struct cufile_batch_state *s = job->priv;
	unsigned size = job->spec->submit_batch;

	for (; s->nbatches < job->spec->depth; s->nbatches++) {
		struct cufile_error error;

		s->batches[s->nbatches].lib = &s->target.lib;
		error = s->target.lib.batch_setup(&s->batches[s->nbatches].handle, size);

		if (error.code) {
			gpuio_say(&job->why, "cuFileBatchIOSetUp refused batch %u of %u, of %u entries (cuFile code %d): its largest is "
				  "properties.io_batchsize of cufile.json", s->nbatches + 1, job->spec->depth, size, error.code);
			return -error.code;
		}
	}
	return 0;
}

static int batch_open(struct gpuio_job *job)
{
	unsigned depth = job->spec->depth;
	struct cufile_batch_state *s = calloc(1, sizeof(*s));
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->target.fd = -1;
	rc = batch_probe(job->spec->library, &job->why);
	if (rc)
		return rc;
	rc = gpuio_cufile_target_open(&s->target, job);
	if (rc)
		return rc;
	s->batches = calloc(depth, sizeof(*s->batches));
	s->list = calloc(depth, sizeof(*s->list));
	s->events = calloc(depth, sizeof(*s->events));
	s->refused = calloc(depth, sizeof(struct gpuio_io *));
	if (!s->batches || !s->list || !s->events || !s->refused)
		return -ENOMEM;
	return make_batches(job);
}

static struct cufile_batch *nth(struct cufile_batch_state *s, unsigned n)
{
	return &s->batches[(s->oldest + n) % s->nbatches];
}

static int batch_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct cufile_batch_state *s = job->priv;
	struct cufile_batch *batch;
	struct cufile_error error;

	if (s->used == s->nbatches)
		return 0; /* a younger one than the oldest has ended; the oldest is next */
	batch = nth(s, s->used);
	if (n > job->spec->submit_batch)
		n = job->spec->submit_batch;
	for (unsigned i = 0; i < n; i++) {
		struct cufile_batch_io *entry = &s->list[i];

		entry->mode = CUFILE_BATCH;
		entry->file = s->target.file;
		entry->cookie = ios[i];
		entry->opcode = ios[i]->op == GPUIO_READ ? CUFILE_READ : CUFILE_WRITE;
		entry->batch.base = ios[i]->buf;
		entry->batch.base_offset = 0;
		entry->batch.file_offset = (int64_t)ios[i]->offset;
		entry->batch.size = ios[i]->length;
	}
	error = s->target.lib.batch_submit(batch->handle, n, s->list, 0);
	if (error.code == 0) {
		batch->left = n;
		s->used++;
		return (int)n;
	}
	/* None of them was taken; that is told of the first, and the others are offered again. */
	ios[0]->result = -error.code;
	s->refused[s->nrefused++] = ios[0];
	return 1;
}

static unsigned take_refused(struct cufile_batch_state *s, struct gpuio_io **done, unsigned max)
{
	unsigned n = s->nrefused < max ? s->nrefused : max;

	memcpy(done, s->refused, n * sizeof(struct gpuio_io *));
	s->nrefused -= n;
	memmove(s->refused, s->refused + n, s->nrefused * sizeof(struct gpuio_io *));
	return n;
}

static int64_t event_result(const struct cufile_batch_event *event)
{
	int64_t moved = (int64_t)event->moved;

	if (event->status == CUFILE_COMPLETE)
		return cufile_result(moved, EIO);
	return moved < 0 && moved != -1 ? moved : -EIO;
}

/* Takes up to max finished requests of one batch, waiting for `min` of them until the time-out. How many, or -50xx. */
static int take_events(struct gpuio_job *job, struct cufile_batch *batch, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct cufile_batch_state *s = job->priv;
	struct timespec limit = {0, min ? LOOK_NS : 0};
	unsigned got = batch->left < max ? batch->left : max;
	struct cufile_error error;

	if (got == 0)
		return 0;
	error = s->target.lib.batch_status(batch->handle, min < got ? min : got, &got, s->events, &limit);
	if (error.code) {
		gpuio_say(&job->why, "cuFileBatchIOGetStatus failed (cuFile code %d)", error.code);
		return -error.code;
	}
	for (unsigned i = 0; i < got; i++) {
		struct gpuio_io *io = s->events[i].cookie;

		io->result = event_result(&s->events[i]);
		done[i] = io;
	}
	batch->left -= got;
	return (int)got;
}

/* One look at every batch, oldest first; only the oldest is waited for. */
static int look(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct cufile_batch_state *s = job->priv;
	unsigned n = 0;

	for (unsigned i = 0; i < s->used && n < max; i++) {
		int got = take_events(job, nth(s, i), done + n, i == 0 && min ? 1 : 0, max - n);

		if (got < 0)
			return n ? (int)n : got;
		n += (unsigned)got;
	}
	while (s->used && nth(s, 0)->left == 0) {
		s->oldest = (s->oldest + 1) % s->nbatches;
		s->used--;
	}
	return (int)n;
}

static int batch_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct cufile_batch_state *s = job->priv;
	unsigned n = take_refused(s, done, max);

	/* When nothing came in one wait the caller looks whether its deadline has passed. */
	do {
		int got = look(job, done + n, n < min, max - n);

		if (got < 0)
			return n ? (int)n : got;
		if (got == 0)
			break;
		n += (unsigned)got;
	} while (n < min && s->used);
	return (int)n;
}

static void drain(struct gpuio_job *job)
{
	struct cufile_batch_state *s = job->priv;

	/* The library may still be writing into the buffers: for as long as a close may take, about. */
	for (unsigned waits = 0; s->used && waits < 10; waits++)
		if (batch_reap(job, s->refused, 1, job->spec->depth) < 0)
			return;
}

static void *destroy(void *arg)
{
	const struct cufile_batch *batch = arg;

	if (batch->left && batch->lib->batch_cancel)
		batch->lib->batch_cancel(batch->handle);
	batch->lib->batch_destroy(batch->handle);
	return NULL;
}

/* All at once: each takes the library 100 ms, in which it waits. */
static void destroy_batches(struct cufile_batch_state *s)
{
	for (unsigned i = 0; i < s->nbatches; i++) {
		struct cufile_batch *batch = &s->batches[i];

		batch->ending = pthread_create(&batch->thread, NULL, destroy, batch) == 0;
		if (!batch->ending)
			destroy(batch);
	}
	for (unsigned i = 0; i < s->nbatches; i++)
		if (s->batches[i].ending)
			pthread_join(s->batches[i].thread, NULL);
}

static void batch_close(struct gpuio_job *job)
{
	struct cufile_batch_state *s = job->priv;

	if (!s)
		return;
	s->nrefused = 0;
	if (s->used)
		drain(job);
	destroy_batches(s);
	gpuio_cufile_target_close(&s->target);
	free(s->batches);
	free(s->list);
	free(s->events);
	free(s->refused);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_cufile_batch = {
	.name = "cufile_batch",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NEEDS_GPU | GPUIO_ENGINE_FIXED_BUFFERS,
	.probe = batch_probe,
	.open = batch_open,
	.submit = batch_submit,
	.reap = batch_reap,
	.close = batch_close,
};
