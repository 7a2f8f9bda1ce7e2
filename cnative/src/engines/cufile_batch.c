/* SPDX-License-Identifier: Apache-2.0 */
/* cufile_batch.c - cuFile's batch interface: one batch of depth entries, kept full. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engines/cufile.h"
#include "registry.h"
#include "why.h"

#define LOOK_NS 100000000L /* how long one wait lasts at most, so that a deadline is seen */

struct cufile_batch_state {
	struct cufile_target target;
	void *batch;
	unsigned in_flight;
	struct cufile_batch_io *entries;    /* one per slot */
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

static int batch_open(struct gpuio_job *job)
{
	unsigned depth = job->spec->depth;
	struct cufile_batch_state *s = calloc(1, sizeof(*s));
	struct cufile_error error;
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
	s->entries = calloc(depth, sizeof(*s->entries));
	s->list = calloc(depth, sizeof(*s->list));
	s->events = calloc(depth, sizeof(*s->events));
	s->refused = calloc(depth, sizeof(struct gpuio_io *));
	if (!s->entries || !s->list || !s->events || !s->refused)
		return -ENOMEM;
	for (unsigned i = 0; i < depth; i++) {
		struct gpuio_io *io = &job->ios[i];

		s->entries[i].mode = CUFILE_BATCH;
		s->entries[i].file = s->target.file;
		s->entries[i].cookie = io;
		s->entries[i].batch.base = cufile_base(&s->target, io);
		s->entries[i].batch.base_offset = cufile_offset(&s->target, io);
	}
	error = s->target.lib.batch_setup(&s->batch, depth);
	if (error.code) {
		s->batch = NULL;
		gpuio_say(&job->why, "cuFileBatchIOSetUp refused a batch of %u (cuFile code %d): its largest is "
			  "properties.io_batchsize of cufile.json", depth, error.code);
	}
	return -error.code;
}

static int batch_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct cufile_batch_state *s = job->priv;
	struct cufile_error error;

	for (unsigned i = 0; i < n; i++) {
		struct cufile_batch_io *entry = &s->entries[ios[i]->index];

		entry->opcode = ios[i]->op == GPUIO_READ ? CUFILE_READ : CUFILE_WRITE;
		entry->batch.file_offset = (int64_t)ios[i]->offset;
		entry->batch.size = ios[i]->length;
		s->list[i] = *entry;
	}
	error = s->target.lib.batch_submit(s->batch, n, s->list, 0);
	if (error.code == 0) {
		s->in_flight += n;
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

static int take_events(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max, struct timespec *timeout)
{
	struct cufile_batch_state *s = job->priv;
	unsigned n = take_refused(s, done, max), got = max - n;
	struct cufile_error error;

	if (got == 0 || s->in_flight == 0)
		return (int)n;
	min = min > n ? min - n : 0;
	error = s->target.lib.batch_status(s->batch, min, &got, s->events, timeout);
	if (error.code) {
		gpuio_say(&job->why, "cuFileBatchIOGetStatus failed (cuFile code %d)", error.code);
		return n ? (int)n : -error.code;
	}
	for (unsigned i = 0; i < got; i++) {
		struct gpuio_io *io = s->events[i].cookie;

		io->result = event_result(&s->events[i]);
		done[n++] = io;
	}
	s->in_flight -= got;
	return (int)n;
}

static int batch_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct timespec limit = {0, min ? LOOK_NS : 0};

	return take_events(job, done, min, max, &limit);
}

static void drain(struct gpuio_job *job)
{
	struct cufile_batch_state *s = job->priv;
	struct gpuio_io *done;

	/* The library may still be writing into the buffers: at most two seconds, which is what a close is given. */
	for (unsigned i = 0; s->in_flight && i < 20; i++)
		if (batch_reap(job, &done, 1, 1) < 0)
			return;
}

static void batch_close(struct gpuio_job *job)
{
	struct cufile_batch_state *s = job->priv;

	if (!s)
		return;
	if (s->batch) {
		drain(job);
		if (s->in_flight && s->target.lib.batch_cancel)
			s->target.lib.batch_cancel(s->batch);
		s->target.lib.batch_destroy(s->batch);
	}
	gpuio_cufile_target_close(&s->target);
	free(s->entries);
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
