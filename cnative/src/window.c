/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - one timed stretch: share it out, watch the deadline, add the workers up. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "hist.h"
#include "run.h"
#include "why.h"

#define GRACE_NS UINT64_C(1000000000)

/*
 * Over one stretch of time for all workers, from the first one's ramp end to the last one's drain start. Each over its own
 * stretch would not do: workers that take turns on few CPUs would be added up as if they had run at once. Time left out for
 * syncs has moved a stretch's start.
 */
struct steady {
	uint64_t max, ns, ios, lat_ns;
	double mean, rate;
};

static struct steady add_flows(const struct gpuio_run *run, bool total)
{
	const struct gpuio_ticker *ticker = &run->workers[0].ticker;
	uint64_t first = UINT64_MAX, last = 0, ticks;
	struct steady steady = {0};
	double settled = 0.0;

	for (uint32_t i = 0; i < run->spec.jobs; i++) {
		const struct gpuio_tally *t = &run->workers[i].tally;
		const struct gpuio_flow *f = total ? &t->total : &t->flow;

		steady.max += f->max;
		if (f->ticks == 0)
			continue;
		if (f->start < first)
			first = f->start;
		if (f->start + f->ticks > last)
			last = f->start + f->ticks;
		settled += (double)f->settled;
		steady.ios += f->steady_ios;
		steady.lat_ns += f->steady_lat_ns;
	}
	ticks = ticks_between(first, last);
	steady.ns = ticks_to_ns(ticker, ticks);
	if (steady.ns == 0)
		return steady;
	steady.mean = settled / (double)ticks;
	steady.rate = (double)steady.ios * 1e9 / (double)steady.ns;
	return steady;
}

static void add_steady(const struct gpuio_run *run, struct gpuio_window *window)
{
	struct steady device = add_flows(run, false), total = add_flows(run, true);

	window->max_in_flight = device.max;
	window->mean_in_flight = device.mean;
	window->steady_ns = device.ns;
	window->steady_ios = device.ios;
	window->steady_lat_ns = device.lat_ns;
	window->steady_rate = device.rate;
	window->max_total = total.max;
	window->total_in_flight = total.mean;
	window->total_ns = total.ns;
	window->total_ios = total.ios;
	window->total_lat_ns = total.lat_ns;
	window->total_rate = total.rate;
}

static void add_worker(const struct gpuio_worker *w, struct gpuio_window *window)
{
	const struct gpuio_tally *t = &w->tally;

	window->ios += t->ios;
	window->reads += t->reads;
	window->writes += t->writes;
	window->bytes += t->bytes;
	window->short_ios += t->short_ios;
	window->syncs += t->syncs;
	window->sync_ns += t->sync_ns;
	window->verified += t->verified;
	if (t->bad && window->bad == 0)
		window->first_bad_offset = t->first_bad_offset;
	window->bad += t->bad;
	if (t->errors && window->errors == 0) {
		window->first_error = t->first_error;
		window->first_error_op = t->first_error_op;
		window->first_error_offset = t->first_error_offset;
	}
	window->errors += t->errors;
	window->late += t->late;
	window->copies += t->copies;
	window->copied_bytes += t->copied_bytes;
	if (t->stopped)
		window->stopped = 1;
	if (w->result.end_ns > window->end_ns)
		window->end_ns = w->result.end_ns;
}

void gpuio_window_collect(struct gpuio_run *run, struct gpuio_window *window)
{
	gpuio_hist_clear(&run->slat);
	gpuio_hist_clear(&run->clat);
	gpuio_hist_clear(&run->lat);
	gpuio_hist_clear(&run->lag);
	gpuio_hist_clear(&run->response);
	gpuio_hist_clear(&run->copy);
	gpuio_hist_clear(&run->total);
	window->scheduled = run->replay ? run->replay->timed : run->spec.n_arrivals;
	window->start_ns = run->start_ns;
	for (uint32_t i = 0; i < run->spec.jobs; i++) {
		const struct gpuio_worker *w = &run->workers[i];

		add_worker(w, window);
		gpuio_hist_merge(&run->lat, &w->lat);
		gpuio_hist_merge(&run->slat, &w->slat);
		gpuio_hist_merge(&run->clat, w->observable ? &w->clat : &w->lat);
		if (w->stage) {
			gpuio_hist_merge(&run->copy, &w->copy);
			gpuio_hist_merge(&run->total, &w->total);
		}
		if (!w->scheduled && !run->replay)
			continue;
		gpuio_hist_merge(&run->lag, &w->lag);
		gpuio_hist_merge(&run->response, &w->response);
	}
	add_steady(run, window);
	gpuio_usage_between(&run->usage_start, &run->usage_end, window);
	window->clock_ppm = gpuio_clock_ppm(&run->clock, run->pair_start, run->pair_end);
	run->has_window = true;
}

static void share_out(struct gpuio_run *run, uint64_t ios)
{
	uint64_t each = ios / run->spec.jobs, extra = ios % run->spec.jobs;

	for (uint32_t i = 0; i < run->spec.jobs; i++)
		run->workers[i].share = each + (i < extra ? 1 : 0);
}

static int worker_failure(struct gpuio_run *run, struct gpuio_why *why)
{
	for (uint32_t i = 0; i < run->spec.jobs; i++) {
		const struct gpuio_worker *w = &run->workers[i];
		int error = w->result.error;

		if (error) {
			if (w->job.why.text[0])
				*why = w->job.why;
			else
				gpuio_say(why, "worker %" PRIu32 ": the engine %s failed (%s)", i, run->engine->name, strerror(-error));
			return error;
		}
	}
	return 0;
}

/* Under the lock. The first worker that has not come back. */
static int32_t stuck_worker(const struct gpuio_run *run)
{
	for (uint32_t i = 0; i < run->spec.jobs; i++)
		if (run->workers[i].finished != run->generation)
			return (int32_t)i;
	return -1;
}

static int begin(struct gpuio_run *run, struct gpuio_window *window, struct gpuio_why *why)
{
	gpuio_say(why, "%s", "");
	memset(window, 0, sizeof(*window));
	window->stuck_worker = -1;
	if (!run->spent)
		return 0;
	gpuio_say(why, "a window of this run failed or passed its deadline: close the run");
	return -ECANCELED;
}

/* Lets the workers do their shares; `ios` in all, for the sentence that says what was not over. */
static int run_window(struct gpuio_run *run, uint64_t ios, struct gpuio_window *window, struct gpuio_why *why)
{
	double seconds = (double)run->spec.timeout_ns / 1e9;
	uint64_t deadline = 0;
	bool late;
	int rc;

	pthread_mutex_lock(&run->lock);
	run->finished = 0;
	run->generation++;
	if (run->spec.timeout_ns)
		deadline = mono_ns() + run->spec.timeout_ns;
	pthread_cond_broadcast(&run->go);
	late = !gpuio_run_wait(run, &run->finished, run->spec.jobs, deadline);
	if (late) {
		run->spent = true;
		atomic_store(&run->give_up, 1);
		if (!gpuio_run_wait(run, &run->finished, run->spec.jobs, mono_ns() + GRACE_NS))
			window->stuck_worker = stuck_worker(run);
	}
	pthread_mutex_unlock(&run->lock);
	if (window->stuck_worker >= 0) {
		run->has_window = false;
		gpuio_say(why, "worker %" PRId32 " of engine %s did not come back within %.3g s: the device is stuck or far slower "
			  "than expected", window->stuck_worker, run->engine->name, seconds);
		return -ETIMEDOUT;
	}
	gpuio_window_collect(run, window);
	rc = worker_failure(run, why);
	if (rc)
		run->spent = true;
	if (late) {
		gpuio_say(why, "the window of %" PRIu64 " I/Os was not over within %.3g s (%" PRIu64 " done): ask for fewer I/Os or "
			  "a longer time-out", ios, seconds, window->ios);
		return -ETIMEDOUT;
	}
	return rc;
}

int gpuio_window(struct gpuio_run *run, uint64_t ios, struct gpuio_window *window, struct gpuio_why *why)
{
	int rc = begin(run, window, why);

	if (rc)
		return rc;
	if (ios == 0) {
		gpuio_say(why, "a window needs at least one I/O");
		return -EINVAL;
	}
	if (run->replay) {
		gpuio_say(why, "this run replays records: its windows are groups of them");
		return -EINVAL;
	}
	if (run->spec.arrivals && ios != run->spec.n_arrivals) {
		gpuio_say(why, "a window of %" PRIu64 " I/Os does not fit a schedule of %" PRIu64 " arrivals: it is the whole schedule",
			  ios, run->spec.n_arrivals);
		return -EINVAL;
	}
	share_out(run, ios);
	return run_window(run, ios, window, why);
}

int gpuio_replay(struct gpuio_run *run, uint32_t first, uint32_t n, struct gpuio_group_result *results, struct gpuio_window *window,
		 struct gpuio_why *why)
{
	const struct gpuio_replay_spec *spec = &run->spec.replay;
	int rc = begin(run, window, why);
	uint64_t end;

	if (rc)
		return rc;
	if (!run->replay) {
		gpuio_say(why, "this run has no records: its windows are numbers of I/Os");
		return -EINVAL;
	}
	if (n == 0 || first >= spec->n_groups || n > spec->n_groups - first) {
		gpuio_say(why, "groups %" PRIu32 " to %" PRIu64 " of %" PRIu32 ": name at least one that is there", first,
			  (uint64_t)first + n, spec->n_groups);
		return -EINVAL;
	}
	gpuio_replay_rewind(run->replay, first, n, 1.0 / run->clock.ns_per_tick, run->spec.jobs);
	for (uint32_t i = 0; i < run->spec.jobs; i++)
		run->workers[i].share = UINT64_MAX;
	end = first + n < spec->n_groups ? spec->groups[first + n].first : spec->n_records;
	rc = run_window(run, end - spec->groups[first].first, window, why);
	if (window->stuck_worker < 0) {
		struct gpuio_why unheard;
		int failed = gpuio_replay_settle(run, rc ? &unheard : why);

		if (failed)
			run->spent = true;
		rc = rc ? rc : failed;
		gpuio_replay_report(run, results);
	}
	return rc;
}

const struct gpuio_hist *gpuio_slat(const struct gpuio_run *run)
{
	return &run->slat;
}

const struct gpuio_hist *gpuio_clat(const struct gpuio_run *run)
{
	return &run->clat;
}

const struct gpuio_hist *gpuio_lat(const struct gpuio_run *run)
{
	return &run->lat;
}

const struct gpuio_hist *gpuio_lag(const struct gpuio_run *run)
{
	return &run->lag;
}

const struct gpuio_hist *gpuio_response(const struct gpuio_run *run)
{
	return &run->response;
}

const struct gpuio_hist *gpuio_copy(const struct gpuio_run *run)
{
	return &run->copy;
}

const struct gpuio_hist *gpuio_total(const struct gpuio_run *run)
{
	return &run->total;
}

void gpuio_worker_results(struct gpuio_run *run, struct gpuio_worker_result *out)
{
	memset(out, 0, run->spec.jobs * sizeof(*out));
	pthread_mutex_lock(&run->lock);
	for (uint32_t i = 0; i < run->spec.jobs; i++) {
		/* A worker that is still out may be writing its result. */
		if (run->workers[i].finished == run->generation)
			out[i] = run->workers[i].result;
		else
			out[i].error = -ETIMEDOUT;
	}
	pthread_mutex_unlock(&run->lock);
}
