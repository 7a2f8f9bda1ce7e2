/* SPDX-License-Identifier: Apache-2.0 */
/* replay_set.c - records around the windows: refused when they cannot be run, made ready, reported. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "run.h"
#include "why.h"

#define LATE_NS 200000u
#define MAX_TIME_NS INT64_C(1000000000000000)

#define REFUSE(code, ...)                                                                                                    \
	do {                                                                                                                 \
		gpuio_say(why, __VA_ARGS__);                                                                                 \
		return code;                                                                                                 \
	} while (0)

static int check_records(const struct gpuio_spec *spec, bool moves_data, struct gpuio_why *why)
{
	const struct gpuio_replay_spec *rp = &spec->replay;

	for (uint64_t i = 0; i < rp->n_records; i++) {
		const struct gpuio_record *r = &rp->records[i];

		if (r->file >= rp->n_files)
			REFUSE(-EINVAL, "record %" PRIu64 " is about file %u of %" PRIu32, i, r->file, rp->n_files);
		if (r->op > GPUIO_FSYNC)
			REFUSE(-EINVAL, "record %" PRIu64 " has op %u: use read, write or fsync", i, r->op);
		if (r->op == GPUIO_FSYNC)
			continue;
		if (r->length < 1 || r->length > spec->block)
			REFUSE(-EINVAL, "record %" PRIu64 " has %" PRIu32 " bytes: use 1 to the block of %" PRIu32, i, r->length,
			       spec->block);
		if (r->offset > (uint64_t)INT64_MAX - r->length)
			REFUSE(-EINVAL, "record %" PRIu64 " ends beyond any file", i);
		if (r->op == GPUIO_WRITE && spec->read_percent == 100)
			REFUSE(-EINVAL, "record %" PRIu64 " writes, but the run is said to read only", i);
		if (moves_data && r->op == GPUIO_WRITE && (r->offset % GPUIO_SECTOR || r->length % GPUIO_SECTOR))
			REFUSE(-EINVAL, "record %" PRIu64 " writes %" PRIu32 " bytes at %" PRIu64 ", which are not whole %u-byte sectors: "
			       "written data needs them to stay verifiable", i, r->length, r->offset, GPUIO_SECTOR);
	}
	return 0;
}

static int check_groups(const struct gpuio_replay_spec *rp, struct gpuio_why *why)
{
	int64_t last = 0;

	for (uint32_t i = 0; i < rp->n_groups; i++) {
		const struct gpuio_group *g = &rp->groups[i];
		uint64_t end = i + 1 < rp->n_groups ? rp->groups[i + 1].first : rp->n_records;

		if (i == 0 && g->first != 0)
			REFUSE(-EINVAL, "the first group begins with record %" PRIu64 " instead of 0", g->first);
		if (end <= g->first || end - g->first > UINT32_MAX || end > rp->n_records)
			REFUSE(-EINVAL, "group %" PRIu32 " holds records %" PRIu64 " to %" PRIu64 " of %" PRIu64, i, g->first, end,
			       rp->n_records);
		if (g->chain >= rp->n_chains)
			REFUSE(-EINVAL, "group %" PRIu32 " is of chain %" PRIu32 " of %" PRIu32, i, g->chain, rp->n_chains);
		if (g->time_ns > MAX_TIME_NS || g->compute_ns > (uint64_t)MAX_TIME_NS)
			REFUSE(-EINVAL, "group %" PRIu32 ": times may last 10^15 ns (11 days)", i);
		if (g->time_ns < 0)
			continue;
		if (g->time_ns < last)
			REFUSE(-EINVAL, "group %" PRIu32 " at %" PRId64 " ns comes before the one in front of it at %" PRId64 " ns: sort them",
			       i, g->time_ns, last);
		last = g->time_ns;
	}
	return 0;
}

/* Kernels of several chains would compete, and none would take the time it was given. */
static int check_compute(const struct gpuio_spec *spec, struct gpuio_why *why)
{
	const struct gpuio_replay_spec *rp = &spec->replay;
	uint32_t chain = rp->n_chains;

	if (!spec->gpu.ordinals)
		REFUSE(-EINVAL, "kernels compute on a GPU: name one, or let computing be time that passes");
	for (uint32_t i = 1; i < spec->jobs; i++)
		if (spec->gpu.ordinals[i] != spec->gpu.ordinals[0])
			REFUSE(-EINVAL, "kernels compute on one GPU, and the workers have GPU %" PRId32 " and GPU %" PRId32,
			       spec->gpu.ordinals[0], spec->gpu.ordinals[i]);
	for (uint32_t i = 0; i < rp->n_groups; i++) {
		const struct gpuio_group *g = &rp->groups[i];

		if (g->compute_ns == 0)
			continue;
		if (chain != rp->n_chains && chain != g->chain)
			REFUSE(-EINVAL, "chains %" PRIu32 " and %" PRIu32 " compute, and kernels are for one: let computing be time that passes",
			       chain, g->chain);
		chain = g->chain;
	}
	return 0;
}

int gpuio_replay_check(const struct gpuio_spec *spec, bool moves_data, struct gpuio_why *why)
{
	const struct gpuio_replay_spec *rp = &spec->replay;
	int rc;

	if (!rp->records)
		return 0;
	if (!rp->groups || !rp->fds || !rp->seeds || rp->n_records < 1 || rp->n_groups < 1 || rp->n_chains < 1 || rp->n_files < 1)
		REFUSE(-EINVAL, "records need groups, chains, files and their seeds");
	if (rp->n_groups == UINT32_MAX || rp->n_files > UINT16_MAX + 1u)
		REFUSE(-EINVAL, "%" PRIu32 " groups and %" PRIu32 " files: use at most 2^32 - 2 and 65,536", rp->n_groups, rp->n_files);
	if (spec->arrivals)
		REFUSE(-EINVAL, "records carry their own times: give no arrivals with them");
	rc = check_groups(rp, why);
	if (rc == 0 && spec->gpu.compute == GPUIO_COMPUTE_KERNEL)
		rc = check_compute(spec, why);
	return rc ? rc : check_records(spec, moves_data, why);
}

static bool has_barrier(const struct gpuio_replay_spec *spec, uint32_t group)
{
	uint64_t end = group + 1 < spec->n_groups ? spec->groups[group + 1].first : spec->n_records;

	for (uint64_t i = spec->groups[group].first; i < end; i++)
		if (spec->records[i].op == GPUIO_FSYNC || spec->records[i].flags & GPUIO_RECORD_BARRIER)
			return true;
	return false;
}

struct gpuio_replay *gpuio_replay_new(const struct gpuio_replay_spec *spec, uint32_t jobs)
{
	struct gpuio_replay *rp = calloc(1, sizeof(*rp));
	uint64_t queued = (uint64_t)spec->n_groups - spec->n_chains + 1;
	uint32_t places = 1;

	if (!rp)
		return NULL;
	rp->spec = spec;
	rp->turns = calloc(spec->n_groups, sizeof(*rp->turns));
	rp->rows = calloc(spec->n_chains, sizeof(*rp->rows));
	rp->heads = calloc(spec->n_chains, sizeof(*rp->heads));
	rp->open = calloc(jobs, sizeof(*rp->open));
	if (!rp->turns || !rp->rows || !rp->heads || !rp->open) {
		gpuio_replay_free(rp);
		return NULL;
	}
	/* Each group once at most, and none that begins its chain and has no barrier to be put down at. */
	rp->heap_size = spec->n_groups - spec->n_chains + 1;
	for (uint32_t i = 0; i < spec->n_groups; i++) {
		queued += has_barrier(spec, i);
		rp->has_times |= spec->groups[i].time_ns >= 0;
	}
	queued = queued < spec->n_groups ? queued : spec->n_groups;
	while (places < queued && places < UINT32_C(1) << 31)
		places *= 2;
	rp->ready.mask = places - 1;
	rp->ready.places = calloc(places, sizeof(*rp->ready.places));
	if (!rp->ready.places) {
		gpuio_replay_free(rp);
		return NULL;
	}
	return rp;
}

void gpuio_replay_free(struct gpuio_replay *rp)
{
	if (!rp)
		return;
	free(rp->turns);
	free(rp->rows);
	free(rp->heads);
	free(rp->open);
	free(rp->ready.places);
	free(rp);
}

static void rewind_gpu(struct gpuio_replay *rp)
{
	const struct gpuio_group *groups = rp->spec->groups;

	rp->gpu_row = NULL;
	rp->gpu_ended = 0;
	rp->gpu_error = 0;
	atomic_store(&rp->look_at, UINT64_MAX);
	if (!rp->compute)
		return;
	gpuio_compute_rewind(rp->compute);
	for (uint32_t i = rp->first; i < rp->first + rp->n && !rp->gpu_row; i++)
		if (groups[i].compute_ns)
			rp->gpu_row = &rp->rows[groups[i].chain];
}

void gpuio_replay_rewind(struct gpuio_replay *rp, uint32_t first, uint32_t n, double ticks_per_ns, uint32_t jobs)
{
	const struct gpuio_group *groups = rp->spec->groups;
	int64_t earliest = -1, latest = -1;
	uint64_t gap = 0;

	rp->first = first;
	rp->n = n;
	rp->nheads = 0;
	rp->timed = 0;
	for (uint32_t i = 0; i < rp->spec->n_chains; i++)
		rp->rows[i] = (struct gpuio_row){.consume = GPUIO_NO_GROUP, .release = GPUIO_NO_GROUP};
	memset(rp->turns + first, 0, n * sizeof(*rp->turns));
	/* From the back: what follows is known then. */
	for (uint32_t i = first + n; i-- > first;) {
		struct gpuio_row *row = &rp->rows[groups[i].chain];

		rp->turns[i].following = row->consume;
		row->consume = i;
		if (groups[i].time_ns < 0)
			continue;
		earliest = groups[i].time_ns;
		latest = latest < 0 ? earliest : latest;
		rp->timed++;
	}
	for (uint32_t i = first; i < first + n; i++)
		if (rp->rows[groups[i].chain].consume == i)
			rp->heads[rp->nheads++] = i;
	rp->epoch_ns = earliest < 0 ? 0 : earliest;
	if (rp->timed > 1)
		gap = (uint64_t)(latest - earliest) / (rp->timed - 1);
	rp->late_ticks = (uint64_t)((double)(gap > LATE_NS ? gap : LATE_NS) * ticks_per_ns);
	ready_reset(&rp->ready);
	atomic_store(&rp->next_head, 0);
	atomic_store(&rp->active, 0);
	atomic_store(&rp->left, n);
	atomic_store(&rp->broken, 0);
	atomic_store(&rp->keeper, 0);
	rewind_gpu(rp);
	for (uint32_t i = 0; i < jobs; i++)
		atomic_store(&rp->open[i], 0);
}

static uint64_t after(const struct gpuio_run *run, uint64_t ticks)
{
	return ticks ? ticks_to_ns(&run->workers[0].ticker, ticks_between(run->start_ticks, ticks)) : UINT64_MAX;
}

void gpuio_replay_report(const struct gpuio_run *run, struct gpuio_group_result *results)
{
	const struct gpuio_replay *rp = run->replay;

	for (uint32_t i = 0; i < rp->n; i++) {
		const struct gpuio_group *group = &rp->spec->groups[rp->first + i];
		struct gpuio_turn *turn = &rp->turns[rp->first + i];

		results[i].due_ns = after(run, turn->due);
		results[i].start_ns = after(run, atomic_load(&turn->start));
		results[i].end_ns = after(run, atomic_load(&turn->end));
		results[i].consume_ns = after(run, turn->consume);
		results[i].compute_ns = turn->computed_ns;
		if (&rp->rows[group->chain] != rp->gpu_row && turn->consume)
			results[i].compute_ns = group->compute_ns;
	}
}
