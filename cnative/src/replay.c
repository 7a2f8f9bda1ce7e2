/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replay_steps.h"
#include "schedule.h"

static inline uint32_t records_of(const struct gpuio_replay_spec *spec, uint32_t group)
{
	uint64_t end = group + 1 < spec->n_groups ? spec->groups[group + 1].first : spec->n_records;

	return (uint32_t)(end - spec->groups[group].first);
}

static inline bool waits(const struct gpuio_record *r)
{
	return r->op == GPUIO_FSYNC || r->flags & GPUIO_RECORD_BARRIER || r[-1].op == GPUIO_FSYNC;
}

/* When this worker itself has something to do next, in ticks; UINT64_MAX = unknown. */
static uint64_t own_time(const struct gpuio_worker *w)
{
	const struct gpuio_replay *rp = w->run->replay;
	uint64_t at = w->heap.n ? w->heap.at[0].due : UINT64_MAX, look;

	if (!rp->gpu_row || atomic_load(&rp->looker) != w->job.worker)
		return at;
	look = atomic_load(&rp->look_at);
	return look < at ? look : at;
}

/* ---- waking ---- */

void gpuio_replay_ring(struct gpuio_replay *rp, unsigned n)
{
	if (n == 0 || atomic_load(&rp->idle) == 0)
		return;
	atomic_fetch_add(&rp->bell, 1);
	syscall(SYS_futex, &rp->bell, FUTEX_WAKE_PRIVATE, n > INT_MAX ? INT_MAX : (int)n, NULL, NULL, 0);
}

void gpuio_replay_idle(struct gpuio_worker *w, uint64_t until)
{
	struct gpuio_replay *rp = w->run->replay;
	unsigned heard = atomic_load(&rp->bell), none = 0;
	uint64_t rest, ns, record, later;
	uint32_t group;
	struct timespec at;
	bool keeps;

	atomic_fetch_add(&rp->idle, 1);
	/* Looked at once more: from here on a bell is heard. What is drawn now is put back for the loop to take. */
	if (atomic_load(&rp->left) == 0 || gpuio_replay_draw(w, &record, &group, &later) == GPUIO_DRAWN) {
		if (atomic_load(&rp->left) != 0) {
			gpuio_replay_hold(w, record, group);
		}
		atomic_fetch_sub(&rp->idle, 1);
		return;
	}
	if (later < until)
		until = later;
	/* Of those that only wait for the next chain one is enough to watch the clock; what is its own each watches itself. */
	keeps = atomic_compare_exchange_strong(&rp->keeper, &none, 1);
	if (!keeps)
		until = own_time(w);
	rest = until == UINT64_MAX ? mono_ns() + LONGEST_REST_NS : rest_until(w, until);
	ns = rest;
	at = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
	/* FUTEX_WAIT_BITSET: its time-out is absolute. */
	syscall(SYS_futex, &rp->bell, FUTEX_WAIT_BITSET_PRIVATE, heard, &at, NULL, FUTEX_BITSET_MATCH_ANY);
	atomic_fetch_sub(&rp->idle, 1);
	if (keeps) {
		atomic_store(&rp->keeper, 0);
		/* It goes to work now: another one must watch. */
		gpuio_replay_ring(rp, 1);
	}
}

/* ---- chains ---- */

/* Ticks at which the group's own time lets it start, at the earliest. */
static uint64_t time_of(const struct gpuio_worker *w, uint32_t group)
{
	const struct gpuio_replay *rp = w->run->replay;
	int64_t ns = rp->spec->groups[group].time_ns;

	return ns < 0 ? 0 : w->run->start_ticks + (uint64_t)((double)(ns - rp->epoch_ns) * w->ticks_per_ns);
}

bool gpuio_replay_let_go(struct gpuio_worker *w, uint32_t group, uint64_t when, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_turn *turn = &rp->turns[group];
	uint64_t at = time_of(w, group);

	turn->due = at > when ? at : when;
	if (turn->due > now) {
		heap_push(&w->heap, turn->due, group);
		return false;
	}
	ready_put(&rp->ready, group);
	return true;
}

/* The consumer goes on as far as groups have ended, and lets go what that makes room for; how many of them now. */
static unsigned consume(struct gpuio_worker *w, struct gpuio_row *row, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	unsigned released = 0;

	while (row->consume != GPUIO_NO_GROUP) {
		const struct gpuio_group *group = &rp->spec->groups[row->consume];
		struct gpuio_turn *turn = &rp->turns[row->consume];
		uint64_t end = atomic_load_explicit(&turn->end, memory_order_acquire);

		if (end == 0)
			break;
		turn->consume = end > row->free_at ? end : row->free_at;
		row->free_at = turn->consume + (uint64_t)((double)group->compute_ns * w->ticks_per_ns);
		row->consume = turn->following;
		if (row->release != GPUIO_NO_GROUP) {
			uint32_t next = row->release;

			row->release = rp->turns[next].following;
			released += gpuio_replay_let_go(w, next, group->prefetch ? turn->consume : row->free_at, now);
		}
		if (row->consume == GPUIO_NO_GROUP)
			atomic_fetch_sub(&rp->active, 1);
	}
	return released;
}

/* Ends that come in while one worker is at this are left to it. */
unsigned gpuio_replay_consume_all(struct gpuio_worker *w, struct gpuio_row *row, uint64_t now)
{
	unsigned seen = 1, released = 0;

	do {
		released += row == w->run->replay->gpu_row ? gpuio_replay_compute(w, now) : consume(w, row, now);
	} while (!atomic_compare_exchange_strong(&row->events, &seen, 0));
	return released;
}

static void group_ended(struct gpuio_worker *w, uint32_t group, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_row *row = &rp->rows[rp->spec->groups[group].chain];
	unsigned own = w->nfree ? w->nfree : 1, more = rp->spec->concurrency ? 1 : 0;

	atomic_store_explicit(&rp->turns[group].end, now, memory_order_release);
	if (atomic_fetch_add(&row->events, 1) == 0)
		more += gpuio_replay_consume_all(w, row, now);
	if (atomic_fetch_sub(&rp->left, 1) == 1)
		gpuio_replay_ring(rp, UINT_MAX);
	else if (more > own)
		gpuio_replay_ring(rp, more - own);
}

/* ---- taking records ---- */

enum taken { TAKEN, EMPTY, BLOCKED };

static enum taken take(struct gpuio_replay *rp, uint32_t group, uint64_t *record)
{
	const struct gpuio_replay_spec *spec = rp->spec;
	struct gpuio_turn *turn = &rp->turns[group];
	uint32_t n = records_of(spec, group);
	unsigned i = atomic_load_explicit(&turn->next, memory_order_relaxed);

	for (;;) {
		if (i >= n)
			return EMPTY;
		*record = spec->groups[group].first + i;
		if (i > 0 && waits(&spec->records[*record]) && atomic_load(&turn->over) < i)
			return BLOCKED;
		if (atomic_compare_exchange_weak(&turn->next, &i, i + 1))
			return TAKEN;
	}
}

/* True when the group is put down, for whoever ends the last record before its barrier; false when that has just happened. */
static bool park(struct gpuio_replay *rp, uint32_t group)
{
	struct gpuio_turn *turn = &rp->turns[group];
	unsigned none = 0, one = 1;

	if (!atomic_compare_exchange_strong(&turn->parked, &none, 1))
		return true; /* by another one */
	if (atomic_load(&turn->over) < atomic_load(&turn->next))
		return true;
	return !atomic_compare_exchange_strong(&turn->parked, &one, 0);
}

static void open_group(struct gpuio_worker *w, uint32_t group)
{
	struct gpuio_replay *rp = w->run->replay;
	unsigned n = records_of(rp->spec, group) - atomic_load_explicit(&rp->turns[group].next, memory_order_relaxed);
	unsigned own = w->nfree ? w->nfree : 1;

	atomic_store(&rp->open[w->job.worker], group + 1);
	if (n > own)
		gpuio_replay_ring(rp, n - own);
}

/* Starts the next chain if it is time; false: not yet, and *until says when, or none is left. */
static bool start_chain(struct gpuio_worker *w, uint64_t now, uint64_t *until)
{
	struct gpuio_replay *rp = w->run->replay;
	unsigned i = atomic_load(&rp->next_head);
	const struct gpuio_group *group;
	struct gpuio_row *row;
	uint32_t head, ahead;
	unsigned more = 0;
	uint64_t at;

	for (;;) {
		if (i >= rp->nheads)
			return false;
		head = rp->heads[i];
		at = time_of(w, head);
		if (at > now) {
			if (at < *until)
				*until = at;
			return false;
		}
		if (rp->spec->concurrency && atomic_fetch_add(&rp->active, 1) >= rp->spec->concurrency) {
			atomic_fetch_sub(&rp->active, 1);
			return false;
		}
		if (atomic_compare_exchange_strong(&rp->next_head, &i, i + 1))
			break;
		if (rp->spec->concurrency)
			atomic_fetch_sub(&rp->active, 1);
	}
	group = &rp->spec->groups[head];
	row = &rp->rows[group->chain];
	rp->turns[head].due = at ? at : now;
	row->release = rp->turns[head].following;
	atomic_store(&row->events, 1); /* nobody else looks at the chain until all is in place */
	for (ahead = 1; ahead < group->prefetch && row->release != GPUIO_NO_GROUP; ahead++) {
		uint32_t next = row->release;

		row->release = rp->turns[next].following;
		more += gpuio_replay_let_go(w, next, now, now);
	}
	more += gpuio_replay_consume_all(w, row, now);
	open_group(w, head);
	gpuio_replay_ring(rp, more);
	return true;
}

/* A record of a group that another worker has open. */
static bool help(struct gpuio_worker *w, uint64_t *record, uint32_t *group)
{
	struct gpuio_replay *rp = w->run->replay;
	uint32_t jobs = w->run->spec.jobs;

	for (uint32_t k = 1; k < jobs; k++) {
		unsigned theirs = atomic_load(&rp->open[(w->job.worker + k) % jobs]);

		if (theirs && take(rp, theirs - 1, record) == TAKEN) {
			*group = theirs - 1;
			return true;
		}
	}
	return false;
}

static enum gpuio_draw drawn(struct gpuio_worker *w, uint32_t group)
{
	struct gpuio_turn *turn = &w->run->replay->turns[group];
	uint_least64_t none = 0;
	uint64_t now;

	if (atomic_load_explicit(&turn->start, memory_order_relaxed))
		return GPUIO_DRAWN;
	now = stamp(&w->ticker);
	if (atomic_compare_exchange_strong(&turn->start, &none, now) && w->run->replay->spec->groups[group].time_ns >= 0) {
		uint64_t lag = ticks_between(turn->due, now);

		hist_add_n(&w->lag, ticks_to_ns(&w->ticker, lag), 1);
		w->tally.late += lag > w->run->replay->late_ticks;
	}
	return GPUIO_DRAWN;
}

enum gpuio_draw gpuio_replay_draw(struct gpuio_worker *w, uint64_t *record, uint32_t *group, uint64_t *until)
{
	struct gpuio_replay *rp = w->run->replay;
	atomic_uint *open = &rp->open[w->job.worker];
	uint32_t ready;
	uint64_t now;

	*until = UINT64_MAX;
	if (rp->gpu_row)
		gpuio_replay_look(w);
	for (;;) {
		unsigned mine = atomic_load_explicit(open, memory_order_relaxed);

		if (mine) {
			enum taken taken = take(rp, mine - 1, record);

			*group = mine - 1;
			if (taken == TAKEN)
				return drawn(w, *group);
			if (taken == BLOCKED && !park(rp, mine - 1))
				continue;
			atomic_store(open, 0);
		}
		now = stamp(&w->ticker);
		if (w->heap.n && w->heap.at[0].due <= now) {
			open_group(w, heap_pop(&w->heap));
			continue;
		}
		if (ready_get(&rp->ready, &ready)) {
			open_group(w, ready);
			continue;
		}
		if (start_chain(w, now, until))
			continue;
		if (help(w, record, group))
			return drawn(w, *group);
		if (own_time(w) < *until)
			*until = own_time(w);
		return GPUIO_LATER;
	}
}

void gpuio_replay_over(struct gpuio_worker *w, uint32_t group, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_turn *turn = &rp->turns[group];
	unsigned over = atomic_fetch_add(&turn->over, 1) + 1, one = 1;

	if (over == records_of(rp->spec, group))
		group_ended(w, group, now);
	else if (atomic_load(&turn->parked) && over == atomic_load(&turn->next) &&
		 atomic_compare_exchange_strong(&turn->parked, &one, 0))
		ready_put(&rp->ready, group); /* this worker draws next, and will most likely take it up */
}
