/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - a worker thread's life around the hot loop: pin, open, wait for windows, close. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "buffers.h"
#include "run.h"
#include "stage.h"
#include "steps.h"
#include "why.h"

#define LATE_NS 200000u /* of an arrival that is sent late, when the mean gap between arrivals is shorter */

static const struct {
	uint32_t bit;
	const char *name;
} knob_names[] = {
	{GPUIO_KNOB_FIXED_BUFFERS, "fixed_buffers"},
	{GPUIO_KNOB_REGISTERED_FILES, "registered_files"},
	{GPUIO_KNOB_SINGLE_ISSUER, "single_issuer"},
	{GPUIO_KNOB_MERGED_WAIT, "merged_wait"},
};

static int pin(struct gpuio_worker *w)
{
	const int32_t *cpus = w->run->spec.cpus;
	int cpu = cpus ? cpus[w->job.worker] : -1;
	cpu_set_t set;

	w->result.cpu = -1;
	if (cpu < 0)
		return 0;
	CPU_ZERO(&set);
	if (cpu < CPU_SETSIZE)
		CPU_SET((unsigned)cpu, &set);
	if (cpu >= CPU_SETSIZE || sched_setaffinity(0, sizeof(set), &set) != 0) {
		int err = cpu >= CPU_SETSIZE ? EINVAL : errno;

		gpuio_say(&w->job.why, "worker %u cannot be pinned to CPU %d (%s): choose a CPU that is online and allowed, see "
			  "Cpus_allowed_list in /proc/self/status", w->job.worker, cpu, strerror(err));
		return -err;
	}
	w->result.cpu = cpu;
	return 0;
}

/* Knobs that were asked for and are not there get a reason, or are an error. */
static int check_knobs(struct gpuio_worker *w)
{
	uint32_t asked = w->run->spec.knobs, missing = asked & ~w->job.effective & ~(uint32_t)GPUIO_KNOB_REQUIRE;
	char names[96] = "";

	if (!missing)
		return 0;
	if (!w->job.why.text[0]) {
		for (size_t i = 0; i < sizeof(knob_names) / sizeof(knob_names[0]); i++) {
			size_t used = strlen(names);

			if (missing & knob_names[i].bit)
				snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", knob_names[i].name);
		}
		gpuio_say(&w->job.why, "the engine %s does not have: %s", w->job.engine->name, names);
	}
	return asked & GPUIO_KNOB_REQUIRE ? -ENOTSUP : 0;
}

/* Fills what writes will send; done in the worker so that the memory is near the CPU it is pinned to. */
static int fill_slots(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;

	if (spec->read_percent == 100 || !engine_moves_data(w->job.engine))
		return 0;
	if (w->side)
		return gpuio_side_fill(w);
	for (uint32_t i = 0; i < w->job.slots; i++)
		gpuio_pattern_fill(w->slots[i].buf, spec->block, slot_place(w, i), spec->pattern_seed);
	return 0;
}

/* What stays the same for all requests of the run is decided once. */
static void choose_ways(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	uint64_t gap = spec->n_arrivals > 1 ? spec->arrivals[spec->n_arrivals - 1] / (spec->n_arrivals - 1) : 0;

	w->synchronous = w->job.engine->flags & GPUIO_ENGINE_SYNC;
	w->merged = w->job.effective & GPUIO_KNOB_MERGED_WAIT && !w->synchronous;
	w->observable = !w->synchronous && !w->merged;
	w->alone = spec->depth == 1;
	/* What is staged is checked where it ends. */
	w->verifies = spec->verify && engine_moves_data(w->job.engine) && !w->stage;
	w->scheduled = spec->arrivals != NULL;
	/* Where nothing but drawing an offset lies between two submissions, and a whole queue hides it. */
	w->coarse = !w->synchronous && !w->stage && spec->depth >= 8 && (w->merged || spec->submit_batch == 1) && spec->read_percent == 100 &&
		    !w->verifies && !w->scheduled && !w->run->replay;
	w->plain = w->merged && !w->stage && !w->verifies && !w->scheduled && !w->run->replay;
	w->unit = w->merged ? spec->depth : spec->submit_batch;
	w->drawn = w->coarse ? spec->depth : w->unit;
	/* A queue that is emptied again and again, or filled by arrivals, has no ramp that could be told from the rest. */
	w->ramp = w->scheduled || w->run->replay || spec->sync == GPUIO_SYNC_EVERY ? 1 : spec->depth;
	w->ticks_per_ns = 1.0 / w->run->clock.ns_per_tick;
	w->late_ticks = (uint64_t)((double)(gap > LATE_NS ? gap : LATE_NS) * w->ticks_per_ns);
	/* The kernel may otherwise let a thread oversleep by 50 us, to wake several at once. */
	if (w->scheduled || w->run->replay)
		prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	/*
	 * A neighbour on its CPU would make it late by time slices. It sleeps between arrivals, so it starves nobody; one that polls
	 * would. Where the kernel does not permit it, it stays as it is.
	 */
	if ((w->scheduled || (w->run->replay && w->run->replay->has_times)) && spec->arrival_wait == GPUIO_WAIT_SLEEP && !w->stage &&
	    !(w->job.engine->flags & GPUIO_ENGINE_POLLED))
		sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 1});
}

static void close_memory(struct gpuio_worker *w)
{
	gpuio_stage_close(w);
	gpuio_side_close(w);
}

static int open_engine(struct gpuio_worker *w)
{
	int rc = pin(w);

	w->result.tid = (int32_t)syscall(SYS_gettid);
	w->result.gpu = w->job.gpu;
	if (rc)
		return rc;
	if (w->side)
		rc = gpuio_side_open(w);
	if (rc == 0 && w->stage)
		rc = gpuio_stage_open(w);
	if (rc == 0) {
		rc = w->job.engine->open(&w->job);
		if (rc == 0)
			rc = check_knobs(w);
		if (rc == 0)
			rc = fill_slots(w);
		if (rc == 0) {
			choose_ways(w);
			return 0;
		}
		w->job.engine->close(&w->job);
	}
	close_memory(w);
	return rc;
}

/* Makes sure that what a buffer held before cannot pass for data of this window. */
static void poison(const struct gpuio_spec *spec, struct gpuio_io *io)
{
	static const uint64_t word = UINT64_C(0xdead10ccdead10cc);
	unsigned char *p = io->buf;

	if (spec_aligned(spec)) {
		memcpy(p, &word, sizeof(word));
		memcpy(p + spec->block - GPUIO_SECTOR, &word, sizeof(word));
	} else {
		memset(p, 0xdd, spec->block);
	}
}

static void begin_window(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;

	memset(&w->tally, 0, sizeof(w->tally));
	gpuio_hist_clear(&w->slat);
	gpuio_hist_clear(&w->clat);
	gpuio_hist_clear(&w->lat);
	gpuio_hist_clear(&w->lag);
	gpuio_hist_clear(&w->response);
	gpuio_hist_clear(&w->copy);
	gpuio_hist_clear(&w->total);
	gpuio_say(&w->job.why, "%s", "");
	w->result.error = 0;
	w->issued = w->chain = 0;
	w->uniform = false;
	w->nqueued = 0;
	w->nfree = w->job.slots;
	for (uint32_t i = 0; i < w->job.slots; i++) {
		struct gpuio_io *io = &w->slots[i];

		/* Taken from the end, so that slot 0 goes first. */
		w->free[w->job.slots - 1 - i] = io;
		io->result = GPUIO_UNUSED;
		if (spec->read_percent > 0 && engine_moves_data(w->job.engine) && (!w->side || w->stage))
			poison(spec, io);
	}
	if (w->side && spec->read_percent > 0 && engine_moves_data(w->job.engine))
		w->result.error = gpuio_side_poison(w);
}

static void start_together(struct gpuio_run *run)
{
	if (atomic_fetch_add(&run->arrived, 1) + 1 == run->spec.jobs) {
		struct gpuio_ticker ticker = gpuio_ticker_of(&run->clock);

		atomic_store(&run->arrived, 0);
		run->pair_start = gpuio_clock_pair(&ticker);
		gpuio_usage_read(&run->usage_start);
		run->start_ns = mono_ns();
		run->start_ticks = stamp(&ticker);
	}
	pthread_barrier_wait(&run->barrier);
}

static void finish_window(struct gpuio_worker *w, uint64_t generation)
{
	struct gpuio_run *run = w->run;

	pthread_mutex_lock(&run->lock);
	w->finished = generation;
	if (++run->finished == run->spec.jobs) {
		struct gpuio_ticker ticker = gpuio_ticker_of(&run->clock);

		/* Read here, not by the caller: its waking up is not part of the window. */
		gpuio_usage_read(&run->usage_end);
		run->pair_end = gpuio_clock_pair(&ticker);
		pthread_cond_signal(&run->report);
	}
	pthread_mutex_unlock(&run->lock);
}

static int run_share(struct gpuio_worker *w)
{
	struct gpuio_tally *t = &w->tally;
	int rc;

	t->flow.last = t->total.last = stamp(&w->ticker);
	if (w->result.error)
		return w->result.error;
	if (w->stage)
		rc = gpuio_staged_loop(w);
	else if (w->run->replay)
		rc = gpuio_replay_loop(w);
	else
		rc = w->scheduled ? gpuio_open_loop(w) : gpuio_closed_loop(w);
	if (rc == 0 && !w->run->replay && w->run->spec.sync == GPUIO_SYNC_END)
		gpuio_sync_file(w, true);
	t->reads = t->ios - t->writes;
	if (!w->run->replay)
		t->bytes = t->ios * w->run->spec.block;
	return rc;
}

static void one_window(struct gpuio_worker *w, uint64_t generation)
{
	uint64_t cpu;

	begin_window(w);
	start_together(w->run);
	cpu = gpuio_thread_cpu_ns();
	w->result.start_ns = mono_ns();
	w->result.error = run_share(w);
	w->result.end_ns = mono_ns();
	w->result.cpu_ns = gpuio_thread_cpu_ns() - cpu;
	w->result.ios = w->tally.ios;
	w->result.bytes = w->tally.bytes;
	finish_window(w, generation);
}

void *gpuio_worker_main(void *worker)
{
	struct gpuio_worker *w = worker;
	struct gpuio_run *run = w->run;
	uint64_t seen = 0;

	w->open_error = open_engine(w);
	pthread_mutex_lock(&run->lock);
	run->opened++;
	pthread_cond_signal(&run->report);
	while (w->open_error == 0) {
		while (!run->quit && run->generation == seen)
			pthread_cond_wait(&run->go, &run->lock);
		if (run->quit)
			break;
		seen = run->generation;
		pthread_mutex_unlock(&run->lock);
		one_window(w, seen);
		pthread_mutex_lock(&run->lock);
	}
	pthread_mutex_unlock(&run->lock);
	if (w->open_error == 0) {
		w->job.engine->close(&w->job);
		close_memory(w);
	}
	pthread_mutex_lock(&run->lock);
	run->gone++;
	pthread_cond_signal(&run->report);
	pthread_mutex_unlock(&run->lock);
	return NULL;
}
