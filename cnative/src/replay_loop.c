/* SPDX-License-Identifier: Apache-2.0 */
/* replay_loop.c - a worker's share of a window over records: takes them up as they may start, and ends them. */
#include "replay_steps.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "schedule.h"

/* What the buffer held before must not pass for what is read now: where it belongs would be the same from window to window. */
static inline void spoil(struct gpuio_io *io)
{
	static const uint64_t word = UINT64_C(0xdead10ccdead10cc);
	uint64_t skip = pattern_skip(io->offset), whole = pattern_whole(io->length, io->offset);
	unsigned char *p = (unsigned char *)io->buf + skip;

	if (whole == 0)
		return;
	memcpy(p, &word, sizeof(word));
	memcpy(p + whole - GPUIO_SECTOR, &word, sizeof(word));
}

struct gpuio_io *gpuio_replay_request(struct gpuio_worker *w, uint64_t record, uint32_t group)
{
	const struct gpuio_replay_spec *spec = w->run->replay->spec;
	const struct gpuio_record *r = &spec->records[record];
	struct gpuio_io *io = w->free[--w->nfree];

	io->offset = r->offset;
	io->length = r->length;
	io->op = r->op;
	io->file = r->file;
	io->fd = spec->fds[r->file];
	io->group = group;
	io->intended = w->run->replay->turns[group].due;
	io->result = GPUIO_UNUSED;
	if (!engine_moves_data(w->job.engine))
		return io;
	if (io->op == GPUIO_READ)
		spoil(io);
	else if (!w->stage) /* else it is fetched from the GPU, where it is stamped */
		gpuio_pattern_stamp(io->buf, io->length, io->offset, w->run->seeds[io->file]);
	return io;
}

void gpuio_replay_end(struct gpuio_worker *w, const struct gpuio_io *io, uint64_t now)
{
	if (io->result == (int64_t)io->length) {
		w->tally.bytes += io->length;
		if (w->run->replay->timed)
			hist_add_n(&w->response, ticks_to_ns(&w->ticker, ticks_between(io->intended, now)), 1);
	}
	gpuio_replay_over(w, io->group, now);
}

static void end_requests(struct gpuio_worker *w, int n)
{
	uint64_t now = stamp(&w->ticker);

	for (int i = 0; i < n; i++)
		gpuio_replay_end(w, w->done[i], now);
}

void gpuio_replay_sync(struct gpuio_worker *w, uint64_t record, uint32_t group)
{
	const struct gpuio_replay_spec *spec = w->run->replay->spec;
	uint16_t file = spec->records[record].file;

	gpuio_sync_one(w, file, spec->fds[file], true);
	gpuio_replay_over(w, group, stamp(&w->ticker));
}

/* Draws up to a batch of requests into w->batch; fsyncs among them are done at once. *until as gpuio_replay_draw says it. */
static unsigned draw_batch(struct gpuio_worker *w, uint64_t *until)
{
	unsigned most = w->unit < w->nfree ? w->unit : w->nfree, n = 0;

	*until = 0;
	while (n < most) {
		uint64_t record;
		uint32_t group;

		if (gpuio_replay_next(w, &record, &group, until) == GPUIO_LATER)
			break;
		if (w->run->replay->spec->records[record].op == GPUIO_FSYNC) {
			if (n) { /* what is ready to go goes first */
				gpuio_replay_hold(w, record, group);
				break;
			}
			gpuio_replay_sync(w, record, group);
			if (w->tally.errors >= GPUIO_MAX_ERRORS)
				break;
			continue;
		}
		w->batch[w->nqueued + n++] = gpuio_replay_request(w, record, group);
	}
	return n;
}

static int reap(struct gpuio_worker *w, bool end, bool full, bool spins, uint64_t until)
{
	int n;

	/* Without a time only a completion of its own can bring this worker anything. */
	if (end || full || w->synchronous || (until == UINT64_MAX && !spins))
		n = harvest(w, 1);
	else if (spins || until == 0)
		n = harvest(w, 0);
	else
		n = wait_for_either(w, until);
	if (n > 0)
		end_requests(w, n);
	return n;
}

int gpuio_replay_loop(struct gpuio_worker *w)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_tally *t = &w->tally;
	bool spins = w->run->spec.arrival_wait == GPUIO_WAIT_SPIN, end = false;
	unsigned waiting = 0, offered = 0, refusals = 0; /* batch[offered .. offered + waiting) is still to be taken */
	int broken = 0, rc;

	w->holds = false;
	w->heap.n = 0;
	for (;;) {
		bool blocked = false, drawing = true;
		uint64_t until = 0;

		if (__builtin_expect(halted(w), 0))
			end = t->stopped = true;
		if (t->errors >= GPUIO_MAX_ERRORS || atomic_load_explicit(&rp->broken, memory_order_relaxed))
			end = true;
		while (!end && !blocked && drawing) {
			if (!waiting) {
				waiting = draw_batch(w, &until);
				offered = w->nqueued;
				if (!waiting)
					break;
			}
			rc = offer(w, w->batch + offered, waiting);
			if (rc < 0) {
				broken = rc;
				end = true;
				break;
			}
			blocked = (unsigned)rc < waiting;
			offered += (unsigned)rc;
			waiting -= (unsigned)rc;
			drawing = !w->synchronous && w->nfree > 0 && !halted(w);
		}
		if (end)
			gpuio_replay_break(rp);
		if (outstanding(w) == 0) {
			if (end || (!waiting && atomic_load(&rp->left) == 0))
				break;
			if (waiting) { /* refused though nothing is in flight */
				if (++refusals >= MAX_REFUSALS) {
					atomic_store(&rp->broken, 1);
					return -EAGAIN;
				}
				sched_yield();
			} else if (!spins && until != 0) {
				gpuio_replay_idle(w, until);
			}
			continue;
		}
		refusals = 0;
		rc = reap(w, end, w->nfree == 0 || waiting, spins, until);
		if (rc < 0) {
			atomic_store(&rp->broken, 1);
			return broken ? broken : rc;
		}
	}
	if (!t->flow.over) {
		flow_mark(&t->flow, stamp(&w->ticker));
		settle(w);
	}
	return broken;
}
