/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - the closed loop: whenever a request ends, the next one begins. */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "steps.h"

void gpuio_note_error(struct gpuio_tally *t, int error, int op, uint64_t offset)
{
	if (t->errors++ == 0) {
		t->first_error = error;
		t->first_error_op = op;
		t->first_error_offset = offset;
	}
}

void gpuio_check_read(struct gpuio_worker *w, const struct gpuio_io *io)
{
	struct gpuio_tally *t = &w->tally;
	uint64_t first;

	if (pattern_whole(io->length, io->offset) == 0)
		return;
	t->verified++;
	if (w->side) {
		bool bad;
		int rc = gpuio_side_check(w, io, &bad, &first);

		if (rc)
			gpuio_note_error(t, rc, io->op, io->offset);
		if (rc || !bad)
			return;
	} else if (gpuio_pattern_check(io->buf, io->length, io->offset, w->run->seeds[io->file], &first) == 0) {
		return;
	}
	if (t->bad++ == 0)
		t->first_bad_offset = first;
}

/* Of an engine that takes device pointers. */
void gpuio_stamp_write(struct gpuio_worker *w, const struct gpuio_io *io)
{
	int rc = engine_moves_data(w->job.engine) ? gpuio_side_stamp(w, io) : 0;

	if (rc)
		gpuio_note_error(&w->tally, rc, GPUIO_WRITE, io->offset);
}

static int sync_once(struct gpuio_worker *w, uint16_t file, int fd, bool whole)
{
	const struct gpuio_engine *engine = w->job.engine;

	if (engine->sync)
		return engine->sync(&w->job, file, fd, whole);
	return (whole ? fsync(fd) : fdatasync(fd)) != 0 ? -errno : 0;
}

void gpuio_sync_one(struct gpuio_worker *w, uint16_t file, int fd, bool whole)
{
	struct gpuio_tally *t = &w->tally;
	uint64_t from;
	int rc;

	if (!engine_moves_data(w->job.engine))
		return;
	from = mono_ns();
	rc = sync_once(w, file, fd, whole);
	if (rc)
		gpuio_note_error(t, rc, GPUIO_WRITE, UINT64_MAX);
	t->sync_ns += mono_ns() - from;
	t->syncs++;
}

void gpuio_sync_file(struct gpuio_worker *w, bool whole)
{
	struct gpuio_tally *t = &w->tally;

	w->unsynced = 0;
	w->sync_due = false;
	if (!engine_moves_data(w->job.engine))
		return;
	gpuio_sync_one(w, 0, w->run->spec.fd, whole);
	/* A drained queue that waits for the medium says nothing about the depth that was kept. */
	flow_leave_out(&t->flow, stamp(&w->ticker));
}

int gpuio_closed_loop(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_tally *t = &w->tally;
	uint64_t prepared = 0;
	unsigned waiting = 0, offered = 0, refusals = 0; /* batch[offered .. offered + waiting) is still to be taken */
	int broken = 0, rc;
	bool end = false;

	for (;;) {
		bool blocked = false;

		while (!end && !blocked) {
			unsigned n;

			if (!waiting) {
				uint64_t left = w->share - prepared;

				n = w->drawn < w->nfree ? w->drawn : w->nfree;
				if (n > left)
					n = (unsigned)left;
				if (n == 0 || w->sync_due)
					break;
				waiting = prepare(w, n);
				prepared += waiting;
				offered = w->nqueued;
			}
			if (__builtin_expect(halted(w), 0)) {
				end = t->stopped = true;
				break;
			}
			n = waiting < w->unit ? waiting : w->unit;
			rc = offer(w, w->batch + offered, n);
			if (__builtin_expect(rc < 0, 0)) {
				broken = rc;
				end = true;
				break;
			}
			blocked = (unsigned)rc < n;
			offered += (unsigned)rc;
			waiting -= (unsigned)rc;
		}
		if (__builtin_expect(end, 0) && !t->flow.over) {
			flow_mark(&t->flow, stamp(&w->ticker));
			settle(w);
		}
		if (__builtin_expect(outstanding(w) == 0, 0)) {
			if (end || (prepared == w->share && !waiting && !w->sync_due))
				break;
			if (w->sync_due && !waiting) {
				gpuio_sync_file(w, false);
				continue;
			}
			/* Refused though nothing is in flight: somebody else holds what the engine needs. */
			if (++refusals >= MAX_REFUSALS)
				return -EAGAIN;
			sched_yield();
			continue;
		}
		refusals = 0;
		rc = harvest(w, spec->reap_batch);
		if (__builtin_expect(rc < 0, 0))
			return broken ? broken : rc;
		if (__builtin_expect(t->errors >= GPUIO_MAX_ERRORS, 0))
			end = true;
	}
	return broken;
}
