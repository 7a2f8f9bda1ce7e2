/* SPDX-License-Identifier: Apache-2.0 */
/* replay_compute.c - a chain whose consumer is a GPU: each group that has been read is computed on, in order, by a kernel. */
#include "compute.h"

#include <errno.h>

#include "replay_steps.h"
#include "schedule.h"
#include "why.h"

/* Between two looks at a kernel that takes longer than it should: in a spinning run, and in one that sleeps. */
#define SPIN_NS 2000u
#define SLEEP_NS 20000u
#define SETTLE_NS UINT64_C(10000000000)

static uint64_t in_ticks(const struct gpuio_worker *w, uint64_t ns)
{
	return (uint64_t)((double)ns * w->ticks_per_ns);
}

/* The oldest one on the GPU runs from `at` on: a group that is read ahead of it may start. */
static unsigned begins(struct gpuio_worker *w, struct gpuio_row *row, uint64_t at, uint64_t now, bool ahead)
{
	struct gpuio_replay *rp = w->run->replay;
	uint32_t next = row->release;

	if (next == GPUIO_NO_GROUP || (rp->spec->groups[next].prefetch > 0) != ahead)
		return 0;
	row->release = rp->turns[next].following;
	return gpuio_replay_let_go(w, next, at, now);
}

static unsigned ended(struct gpuio_worker *w, struct gpuio_row *row, uint64_t gap_ns, uint64_t took_ns, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_turn *turn = &rp->turns[rp->on_gpu[0]];
	unsigned released;

	/* By the GPU's own clock; but the first one's beginning was seen from here, and none has begun before it was handed over. */
	turn->consume = rp->gpu_ended + in_ticks(w, gap_ns);
	if (turn->consume < rp->handed_at[0])
		turn->consume = rp->handed_at[0];
	turn->computed_ns = took_ns;
	rp->gpu_ended = turn->consume + in_ticks(w, took_ns);
	released = begins(w, row, rp->gpu_ended, now, false);
	rp->on_gpu[0] = rp->on_gpu[1];
	rp->handed_at[0] = rp->handed_at[1];
	if (gpuio_compute_pending(rp->compute)) {
		rp->turns[rp->on_gpu[0]].consume = rp->gpu_ended;
		released += begins(w, row, rp->gpu_ended, now, true);
	}
	return released;
}

static int hand_over(struct gpuio_worker *w, struct gpuio_row *row, uint64_t now, unsigned *released)
{
	struct gpuio_replay *rp = w->run->replay;
	uint32_t group = row->consume, place = gpuio_compute_pending(rp->compute);
	int rc;

	rp->handed_at[place] = stamp(&w->ticker);
	if (place == 0)
		rp->turns[group].consume = rp->handed_at[0];
	rc = gpuio_compute_begin(rp->compute, rp->spec->groups[group].compute_ns, &rp->gpu_why);
	if (rc)
		return rc;
	rp->on_gpu[place] = group;
	row->consume = rp->turns[group].following;
	if (row->consume == GPUIO_NO_GROUP)
		atomic_fetch_sub(&rp->active, 1);
	if (place == 0)
		*released += begins(w, row, rp->turns[group].consume, now, true);
	return 0;
}

/* Says when and by whom the next look is due. */
static void plan_look(struct gpuio_worker *w, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	uint64_t at = UINT64_MAX;

	if (gpuio_compute_pending(rp->compute)) {
		const struct gpuio_turn *turn = &rp->turns[rp->on_gpu[0]];

		at = turn->consume + in_ticks(w, rp->spec->groups[rp->on_gpu[0]].compute_ns);
		if (at <= now)
			at = now + in_ticks(w, w->run->spec.gpu.wait == GPUIO_WAIT_SPIN ? SPIN_NS : SLEEP_NS);
	}
	atomic_store(&rp->looker, w->job.worker);
	atomic_store(&rp->look_at, at);
}

unsigned gpuio_replay_compute(struct gpuio_worker *w, uint64_t now)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_row *row = rp->gpu_row;
	unsigned released = 0;
	int rc = 0;

	while (rc >= 0 && !rp->gpu_error) {
		uint64_t gap_ns = 0, took_ns = 0;

		rc = gpuio_compute_pending(rp->compute) ? gpuio_compute_end(rp->compute, &gap_ns, &took_ns, &rp->gpu_why) : 0;
		if (rc > 0) {
			released += ended(w, row, gap_ns, took_ns, now);
			continue;
		}
		if (rc < 0 || row->consume == GPUIO_NO_GROUP || gpuio_compute_pending(rp->compute) == GPUIO_STEPS ||
		    atomic_load_explicit(&rp->turns[row->consume].end, memory_order_acquire) == 0)
			break;
		rc = hand_over(w, row, now, &released);
	}
	if (rc < 0) {
		rp->gpu_error = rc;
		gpuio_replay_break(rp);
	}
	plan_look(w, now);
	return released;
}

void gpuio_replay_look(struct gpuio_worker *w)
{
	struct gpuio_replay *rp = w->run->replay;
	struct gpuio_row *row = rp->gpu_row;
	uint64_t at = atomic_load_explicit(&rp->look_at, memory_order_relaxed), now;
	unsigned own = w->nfree ? w->nfree : 1, more;

	if (at == UINT64_MAX || atomic_load_explicit(&rp->looker, memory_order_relaxed) != w->job.worker)
		return;
	now = stamp(&w->ticker);
	if (now < at || atomic_fetch_add(&row->events, 1) != 0)
		return;
	more = gpuio_replay_consume_all(w, row, now);
	if (more > own)
		gpuio_replay_ring(rp, more - own);
}

int gpuio_replay_settle(struct gpuio_run *run, struct gpuio_why *why)
{
	struct gpuio_replay *rp = run->replay;
	struct gpuio_worker *w = &run->workers[0];
	uint64_t until, nominal = 0;
	int rc;

	if (!rp->gpu_row)
		return 0;
	rc = gpuio_device_enter(w->side->device, why);
	if (rc)
		return rc;
	for (uint32_t i = rp->gpu_row->consume; i != GPUIO_NO_GROUP; i = rp->turns[i].following)
		nominal += rp->spec->groups[i].compute_ns;
	for (uint32_t i = 0; i < gpuio_compute_pending(rp->compute); i++)
		nominal += rp->spec->groups[rp->on_gpu[i]].compute_ns;
	until = mono_ns() + 2 * nominal + SETTLE_NS;
	/* Nobody else has the chain now. */
	while (!rp->gpu_error && atomic_load(&rp->left) == 0 && !halted(w) && mono_ns() < until) {
		gpuio_replay_compute(w, stamp(&w->ticker));
		if (rp->gpu_row->consume == GPUIO_NO_GROUP && gpuio_compute_pending(rp->compute) == 0)
			break;
		sleep_until(mono_ns() + SLEEP_NS);
	}
	if (rp->gpu_error)
		*why = rp->gpu_why;
	rc = gpuio_compute_abort(rp->compute, rp->gpu_error ? &(struct gpuio_why){{0}} : why);
	gpuio_device_leave(w->side->device);
	return rp->gpu_error ? rp->gpu_error : rc;
}

int gpuio_compute_alone(struct gpuio_run *run, uint64_t ns, uint32_t times, int tune, double *took_ns, struct gpuio_why *why)
{
	struct gpuio_compute *compute = run->replay ? run->replay->compute : NULL;
	uint64_t gap, took;
	double sum = 0.0;
	int rc;

	gpuio_say(why, "%s", "");
	*took_ns = 0.0;
	if (!compute || times == 0) {
		gpuio_say(why, "this run computes by no kernel, or no number of times was given");
		return -EINVAL;
	}
	rc = gpuio_device_enter(run->workers[0].side->device, why);
	if (rc)
		return rc;
	gpuio_compute_rewind(compute);
	for (uint32_t i = 0; rc >= 0 && i < times; i++) {
		uint64_t until = mono_ns() + 2 * ns + SETTLE_NS;

		rc = gpuio_compute_begin(compute, ns, why);
		while (rc == 0 && (rc = gpuio_compute_end(compute, &gap, &took, why)) == 0 && mono_ns() < until)
			sleep_until(mono_ns() + SLEEP_NS);
		if (rc == 0) {
			gpuio_say(why, "a kernel of %llu ns has not ended within %llu ns", (unsigned long long)ns,
				  (unsigned long long)(2 * ns + SETTLE_NS));
			rc = -ETIMEDOUT;
		}
		sum += rc > 0 ? (double)took : 0.0;
	}
	if (rc < 0)
		gpuio_compute_abort(compute, &(struct gpuio_why){{0}});
	gpuio_compute_rewind(compute);
	gpuio_device_leave(run->workers[0].side->device);
	if (rc < 0)
		return rc;
	*took_ns = sum / times;
	if (tune)
		gpuio_compute_tune(compute, ns, *took_ns);
	return 0;
}
