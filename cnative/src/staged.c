/* SPDX-License-Identifier: Apache-2.0 */
/* staged.c - the loop for GPU memory that is reached by copies: reads are copied in behind the I/O, writes out before it. */
#include <errno.h>
#include <sched.h>

#include "replay_steps.h"
#include "schedule.h"
#include "stage.h"

struct staged {
	uint64_t drawn;
	uint64_t until; /* records: ticks before which nothing is due here, 0 = there may be more now, UINT64_MAX = unknown */
	unsigned waiting, offered; /* batch[offered .. offered + waiting) is still to be taken */
	unsigned refusals;
	int broken;
	bool end, blocked;
};

static uint64_t under_way(const struct gpuio_worker *w, const struct staged *l)
{
	return outstanding(w) + l->waiting + w->stage->nready;
}

static bool drawn_all(const struct gpuio_worker *w, const struct staged *l)
{
	if (w->run->replay)
		return l->end || atomic_load(&w->run->replay->left) == 0;
	return l->drawn == w->share || l->end;
}

/* Whether another request may be drawn now: of an open loop, when it is due. Reads are drawn as the device has room, what is to be
 * written is fetched ahead of it. */
static bool may_draw(const struct gpuio_worker *w, const struct staged *l)
{
	const struct gpuio_spec *spec = &w->run->spec;

	if (drawn_all(w, l) || w->nfree == 0 || w->sync_due || (spec->read_percent == 100 && under_way(w, l) >= spec->depth))
		return false;
	return !w->scheduled || intended(w, l->drawn) <= stamp(&w->ticker);
}

static void make_ready(struct gpuio_worker *w, struct gpuio_io *io)
{
	struct gpuio_stage *s = w->stage;
	uint32_t place = s->ready_head + s->nready++;

	s->ready[place < w->job.slots ? place : place - w->job.slots] = io;
}

/* Begins to fetch from the GPU what n requests are to write. */
static int fetch(struct gpuio_worker *w, struct gpuio_io **ios, uint32_t n)
{
	uint64_t now;

	if (n == 0)
		return 0;
	flow_mark(&w->tally.total, stamp(&w->ticker));
	w->tally.total.level += n;
	now = stamp(&w->ticker);
	for (uint32_t i = 0; i < n; i++)
		ios[i]->held = now;
	return gpuio_stage_copy(w, ios, n, true);
}

/* Draws requests: reads are ready at once, writes when their data has come from the GPU. */
static int draw(struct gpuio_worker *w, struct staged *l)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_io **writes = w->done; /* free for the moment */
	uint32_t n = 0;

	while (may_draw(w, l)) {
		struct gpuio_io *io = w->free[--w->nfree];

		io->offset = offsets_next(&w->offsets, &io->op);
		io->result = GPUIO_UNUSED;
		if (w->scheduled)
			io->intended = intended(w, l->drawn);
		l->drawn++;
		if (io->op == GPUIO_READ) {
			make_ready(w, io);
			continue;
		}
		writes[n++] = io;
		if (spec->sync == GPUIO_SYNC_EVERY && ++w->unsynced >= spec->sync_every)
			w->sync_due = true;
	}
	return fetch(w, writes, n);
}

/* The same of records, as far as the device has room: who draws one keeps the others from it. fsyncs are done at once. */
static int draw_records(struct gpuio_worker *w, struct staged *l)
{
	struct gpuio_io **writes = w->done;
	uint32_t n = 0;

	l->until = 0;
	while (w->nfree && under_way(w, l) + n < w->run->spec.depth && w->tally.errors < GPUIO_MAX_ERRORS) {
		struct gpuio_io *io;
		uint64_t record;
		uint32_t group;

		if (gpuio_replay_next(w, &record, &group, &l->until) == GPUIO_LATER)
			break;
		l->until = 0;
		if (w->run->replay->spec->records[record].op == GPUIO_FSYNC) {
			if (n || w->stage->nready || l->waiting) { /* what is ready to go goes first */
				gpuio_replay_hold(w, record, group);
				break;
			}
			gpuio_replay_sync(w, record, group);
			continue;
		}
		io = gpuio_replay_request(w, record, group);
		if (io->op == GPUIO_READ)
			make_ready(w, io);
		else
			writes[n++] = io;
	}
	return fetch(w, writes, n);
}

static unsigned reads_among(struct gpuio_io *const *ios, unsigned n)
{
	unsigned reads = 0;

	for (unsigned i = 0; i < n; i++)
		reads += ios[i]->op == GPUIO_READ;
	return reads;
}

/* The whole way's steady stretch is the device's. */
static void follow(struct gpuio_worker *w)
{
	struct gpuio_tally *t = &w->tally;

	if (t->total.level > t->total.max)
		t->total.max = t->total.level;
	if (t->flow.on && !t->total.on)
		flow_begin(&t->total, t->total.last, t->landed, w->total.sum_ns);
	if (t->flow.over)
		flow_settle(&t->total, t->landed, w->total.sum_ns);
}

/* Reads begin where they are offered (writes began when they were fetched). */
static int offer_staged(struct gpuio_worker *w, struct gpuio_io *const *ios, unsigned n)
{
	struct gpuio_flow *total = &w->tally.total;
	unsigned reads = reads_among(ios, n);
	int taken;

	if (w->merged)
		return offer(w, ios, n);
	flow_mark(total, stamp(&w->ticker));
	total->level += reads;
	taken = offer(w, ios, n);
	if (taken < (int)n) {
		unsigned kept = taken < 0 ? 0 : (unsigned)taken;

		total->level -= reads_among(ios + kept, n - kept);
	}
	follow(w);
	return taken;
}

static void send_ready(struct gpuio_worker *w, struct staged *l)
{
	struct gpuio_stage *s = w->stage;

	l->blocked = false;
	while (!l->end && !l->blocked) {
		int rc;

		if (!l->waiting) {
			uint64_t n = w->run->spec.depth - outstanding(w);

			if (n > w->unit)
				n = w->unit;
			if (n > s->nready)
				n = s->nready;
			if (n == 0)
				return;
			l->offered = w->nqueued;
			for (; l->waiting < n; l->waiting++, s->nready--) {
				w->batch[l->offered + l->waiting] = s->ready[s->ready_head];
				if (++s->ready_head == w->job.slots)
					s->ready_head = 0;
			}
		}
		rc = offer_staged(w, w->batch + l->offered, l->waiting);
		if (rc < 0) {
			l->broken = rc;
			l->end = true;
			return;
		}
		l->blocked = (unsigned)rc < l->waiting;
		l->offered += (unsigned)rc;
		l->waiting -= (unsigned)rc;
		if (w->synchronous)
			return;
	}
}

/* What the engine has handed back: reads go on to the GPU, writes are over. */
static int take_in(struct gpuio_worker *w, int n)
{
	struct gpuio_tally *t = &w->tally;
	uint64_t now;
	int rc;

	if (n <= 0)
		return n;
	/* Counted as the device's, but not free yet. */
	w->nfree -= (uint32_t)n;
	flow_mark(&t->total, stamp(&w->ticker));
	now = stamp(&w->ticker);
	for (int i = 0; i < n; i++) {
		struct gpuio_io *io = w->done[i];

		if (io->result != (int64_t)io->length) {
			t->total.level--;
			w->free[w->nfree++] = io;
			if (w->run->replay)
				gpuio_replay_end(w, io, now);
		} else if (io->op == GPUIO_WRITE) {
			gpuio_stage_land(w, io, io->held, now);
		} else {
			io->reaped = now;
			w->stage->gathered[w->stage->ngathered++] = io;
		}
	}
	follow(w);
	rc = gpuio_stage_flush(w);
	return rc ? rc : n;
}

/* Merged requests begin with the call that reaps. */
static void begin_merged(struct gpuio_worker *w)
{
	if (!w->nqueued)
		return;
	flow_mark(&w->tally.total, stamp(&w->ticker));
	w->tally.total.level += reads_among(w->batch, w->nqueued);
}

static int reap(struct gpuio_worker *w, unsigned min)
{
	begin_merged(w);
	return take_in(w, harvest(w, min));
}

static int reap_until(struct gpuio_worker *w, uint64_t target)
{
	begin_merged(w);
	return take_in(w, wait_for_either(w, target));
}

/* Something is under way, with the engine or between the memories: waits for what can go on first. 0 or more, or -errno. */
static int await(struct gpuio_worker *w, const struct staged *l)
{
	const struct gpuio_spec *spec = &w->run->spec;
	bool copying = w->stage->count > 0, spins = spec->gpu.wait == GPUIO_WAIT_SPIN;
	bool arrives = w->scheduled && !drawn_all(w, l) && w->nfree && !w->sync_due && !l->waiting;
	int rc;

	if (outstanding(w) == 0)
		return gpuio_stage_retire(w, !(arrives && spec->arrival_wait == GPUIO_WAIT_SPIN));
	if (w->synchronous || l->end)
		return reap(w, 1);
	if (arrives && spec->arrival_wait == GPUIO_WAIT_SPIN)
		return reap(w, 0);
	if (w->stage->ngathered) /* else it would wait for the device, too */
		return gpuio_stage_retire(w, true);
	if (copying && (arrives || (outstanding(w) < spec->depth && !drawn_all(w, l)))) {
		/* The copy is the shorter of the two. */
		rc = reap(w, 0);
		return rc == 0 && (arrives || !spins) ? gpuio_stage_retire(w, true) : rc;
	}
	if (arrives)
		return reap_until(w, intended(w, l->drawn));
	return reap(w, spec->reap_batch);
}

/* The same for records. Any of their ends may let others begin, those of copies, too. */
static int await_records(struct gpuio_worker *w, const struct staged *l)
{
	const struct gpuio_spec *spec = &w->run->spec;
	bool full = l->until == 0, spins = spec->arrival_wait == GPUIO_WAIT_SPIN;
	int rc;

	if (outstanding(w) == 0)
		return gpuio_stage_retire(w, true);
	if (w->synchronous || l->end)
		return reap(w, 1);
	if (w->stage->ngathered)
		return gpuio_stage_retire(w, true);
	if (w->stage->count) {
		rc = reap(w, 0);
		return rc == 0 && spec->gpu.wait == GPUIO_WAIT_SLEEP ? gpuio_stage_retire(w, true) : rc;
	}
	if (full || (l->until == UINT64_MAX && !spins))
		return reap(w, 1);
	return spins ? reap(w, 0) : reap_until(w, l->until);
}

static int idle(struct gpuio_worker *w, struct staged *l)
{
	if (l->waiting || w->stage->nready) { /* refused though nothing is in flight */
		if (++l->refusals >= MAX_REFUSALS)
			return -EAGAIN;
		sched_yield();
	} else if (w->run->replay) {
		if (w->run->spec.arrival_wait == GPUIO_WAIT_SLEEP && l->until != 0)
			gpuio_replay_idle(w, l->until);
	} else if (w->sync_due) {
		gpuio_sync_file(w, false);
		flow_leave_out(&w->tally.total, stamp(&w->ticker));
	} else if (w->scheduled && w->run->spec.arrival_wait == GPUIO_WAIT_SLEEP) {
		sleep_until(rest_until(w, intended(w, l->drawn)));
	}
	return 0;
}

static int run_staged(struct gpuio_worker *w, struct staged *l)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_tally *t = &w->tally;

	for (;;) {
		int rc = gpuio_stage_retire(w, false);

		if (rc >= 0)
			rc = gpuio_stage_flush(w);
		if (rc >= 0 && !l->end && halted(w))
			l->end = t->stopped = true;
		if (rp && atomic_load_explicit(&rp->broken, memory_order_relaxed))
			l->end = true;
		if (rc >= 0 && !l->end)
			rc = rp ? draw_records(w, l) : draw(w, l);
		if (rc < 0)
			return rc;
		send_ready(w, l);
		if (l->end && rp)
			gpuio_replay_break(rp);
		if (l->end && !t->flow.over) {
			flow_mark(&t->flow, stamp(&w->ticker));
			settle(w);
			flow_mark(&t->total, stamp(&w->ticker));
			follow(w);
		}
		if (outstanding(w) == 0 && w->stage->count == 0) {
			if (l->end || (drawn_all(w, l) && !l->waiting && !w->stage->nready && !w->sync_due))
				return l->broken;
			rc = idle(w, l);
		} else {
			l->refusals = 0;
			rc = rp ? await_records(w, l) : await(w, l);
		}
		if (rc < 0)
			return l->broken ? l->broken : rc;
		if (t->errors >= GPUIO_MAX_ERRORS)
			l->end = true;
	}
}

/* The GPU must not go on with host memory that a next window uses otherwise. */
static void quiesce(struct gpuio_worker *w)
{
	struct gpuio_stage *s = w->stage;

	for (unsigned i = 0; i < w->side->nstreams; i++)
		w->side->device->cuda->stream_synchronize(w->side->streams[i]);
	s->head = s->count = s->line_head = s->line_count = s->ready_head = s->nready = s->ngathered = 0;
}

int gpuio_staged_loop(struct gpuio_worker *w)
{
	struct gpuio_side *side = w->side;
	struct gpuio_tally *t = &w->tally;
	struct staged l = {0};
	uint64_t bad = 0, first = 0;
	bool counts = w->stage->verifies && side->kernel;
	int rc = 0;

	if (counts)
		rc = gpuio_device_findings_reset(side->device, &side->findings, w->job.slots, &w->job.why);
	w->holds = false;
	w->heap.n = 0;
	/* A window of records is short: its whole way counts from the beginning, when the first writes are fetched. */
	if (w->run->replay)
		flow_begin(&t->total, t->total.last, 0, 0);
	if (rc == 0)
		rc = run_staged(w, &l);
	if (rc && w->run->replay)
		gpuio_replay_break(w->run->replay);
	if (w->run->replay && !t->flow.over) {
		flow_mark(&t->flow, stamp(&w->ticker));
		settle(w);
		flow_mark(&t->total, stamp(&w->ticker));
		follow(w);
	}
	quiesce(w);
	if (rc == 0 && counts)
		rc = gpuio_device_findings_read(side->device, &side->findings, side->streams[0], &bad, &first, &w->job.why);
	if (bad && (t->bad == 0 || first < t->first_bad_offset))
		t->first_bad_offset = first;
	t->bad += bad;
	return rc;
}
