/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - refuses a spec that cannot work, with the numbers in the sentence. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "run.h"
#include "why.h"

#define MAX_JOBS 4096u
#define MAX_DEPTH (1u << 20)
#define MAX_BLOCK (1u << 30)
#define MAX_AHEAD 4096u
#define MAX_ARRIVAL_NS UINT64_C(1000000000000000)

#define REFUSE(code, ...)                                                                                                    \
	do {                                                                                                                 \
		gpuio_say(why, __VA_ARGS__);                                                                                 \
		return code;                                                                                                 \
	} while (0)

static int check_geometry(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why)
{
	if (spec->jobs < 1 || spec->jobs > MAX_JOBS)
		REFUSE(-EINVAL, "%" PRIu32 " jobs: use 1 to %u", spec->jobs, MAX_JOBS);
	if (spec->depth < 1 || spec->depth > MAX_DEPTH)
		REFUSE(-EINVAL, "queue depth %" PRIu32 ": use 1 to %u", spec->depth, MAX_DEPTH);
	if ((engine->flags & GPUIO_ENGINE_SYNC) && spec->depth != 1)
		REFUSE(-EINVAL, "queue depth %" PRIu32 ": the engine %s is synchronous and has depth 1 per job; use more jobs instead",
		       spec->depth, engine->name);
	if (spec->block < 1 || spec->block > MAX_BLOCK)
		REFUSE(-EINVAL, "a block of %" PRIu32 " bytes: use 1 to %u", spec->block, MAX_BLOCK);
	if (spec->submit_batch < 1 || spec->submit_batch > spec->depth || spec->reap_batch < 1 ||
	    spec->reap_batch > spec->depth)
		REFUSE(-EINVAL, "submit batch %" PRIu32 " and reap batch %" PRIu32 ": both must be 1 to the queue depth %" PRIu32,
		       spec->submit_batch, spec->reap_batch, spec->depth);
	if (spec->region_offset > INT64_MAX || spec->region_bytes > INT64_MAX - spec->region_offset)
		REFUSE(-EINVAL, "the region at %" PRIu64 " with %" PRIu64 " bytes ends beyond any file", spec->region_offset,
		       spec->region_bytes);
	return 0;
}

static int check_kind(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why)
{
	if (spec->read_percent > 100)
		REFUSE(-EINVAL, "%" PRIu32 " %% reads: use 0 to 100", spec->read_percent);
	if (spec->sync > GPUIO_SYNC_EVERY)
		REFUSE(-EINVAL, "sync mode %" PRIu32 " is not known: use none, end or every", spec->sync);
	if (spec->sync == GPUIO_SYNC_EVERY && spec->sync_every < 1)
		REFUSE(-EINVAL, "sync mode every needs a number of writes between two fdatasync calls, at least 1");
	if (!engine_moves_data(engine))
		return 0;
	if (spec->read_percent < 100 && !spec_aligned(spec) && !spec->replay.records)
		REFUSE(-EINVAL, "writes of %" PRIu32 " bytes from offset %" PRIu64 " on are not whole %u-byte sectors, which written "
		       "data needs to stay verifiable", spec->block, spec->region_offset, GPUIO_SECTOR);
	return 0;
}

static int check_arrivals(const struct gpuio_spec *spec, struct gpuio_why *why)
{
	if (!spec->arrivals != !spec->n_arrivals)
		REFUSE(-EINVAL, "%" PRIu64 " arrivals without a list of them, or a list without arrivals", spec->n_arrivals);
	if (spec->arrival_wait > GPUIO_WAIT_SPIN)
		REFUSE(-EINVAL, "arrival wait %" PRIu32 " is not known: use sleep or spin", spec->arrival_wait);
	for (uint64_t i = 1; i < spec->n_arrivals; i++)
		if (spec->arrivals[i] < spec->arrivals[i - 1])
			REFUSE(-EINVAL, "arrival %" PRIu64 " at %" PRIu64 " ns comes before the one in front of it at %" PRIu64
			       " ns: sort them", i, spec->arrivals[i], spec->arrivals[i - 1]);
	if (spec->n_arrivals && spec->arrivals[spec->n_arrivals - 1] > MAX_ARRIVAL_NS)
		REFUSE(-EINVAL, "the last arrival is at %" PRIu64 " ns: a schedule may last 10^15 ns (11 days)",
		       spec->arrivals[spec->n_arrivals - 1]);
	return 0;
}

static int check_gpus(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why)
{
	const struct gpuio_gpu_spec *gpu = &spec->gpu;

	for (uint32_t i = 0; gpu->ordinals && i < spec->jobs; i++)
		if (gpu->ordinals[i] < 0)
			REFUSE(-EINVAL, "GPU %" PRId32 " of worker %" PRIu32 ": GPUs are numbered from 0", gpu->ordinals[i], i);
	if (gpu->ordinals && spec->replay.records && engine->flags & GPUIO_ENGINE_NEEDS_GPU)
		REFUSE(-ENOTSUP, "the engine %s knows one file and does not replay records: use an engine of the kernel's, whose data is "
		       "copied to the GPU", engine->name);
	if (gpu->wait > GPUIO_WAIT_SPIN)
		REFUSE(-EINVAL, "wait %" PRIu32 " for copies is not known: use sleep or spin", gpu->wait);
	if (gpu->check > GPUIO_GPU_COPY)
		REFUSE(-EINVAL, "check %" PRIu32 " of data on a GPU is not known: use kernel or copy", gpu->check);
	if (gpu->compute > GPUIO_COMPUTE_KERNEL)
		REFUSE(-EINVAL, "compute %" PRIu32 " is not known: use timer or kernel", gpu->compute);
	if (gpu->streams > GPUIO_MAX_STREAMS)
		REFUSE(-EINVAL, "%" PRIu32 " streams a worker: use 1 to %u", gpu->streams, GPUIO_MAX_STREAMS);
	if (gpu->ahead > MAX_AHEAD)
		REFUSE(-EINVAL, "%" PRIu32 " staging slots beyond the depth: use 1 to %u", gpu->ahead, MAX_AHEAD);
	return 0;
}

static int check_file(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why)
{
	if (!engine_moves_data(engine))
		return 0;
	if (engine->flags & GPUIO_ENGINE_NAMESPACE) {
		if (!spec->spdk)
			REFUSE(-EBADF, "no namespace is attached; the engine %s needs one", engine->name);
		return 0;
	}
	for (uint32_t i = 0; spec->replay.records && i < spec->replay.n_files; i++)
		if (spec->replay.fds[i] < 0 || fcntl(spec->replay.fds[i], F_GETFD) < 0)
			REFUSE(-EBADF, "file descriptor %d of file %" PRIu32 " is not open; the engine %s needs a file",
			       spec->replay.fds[i], i, engine->name);
	if (spec->replay.records)
		return 0;
	if (spec->fd < 0 || fcntl(spec->fd, F_GETFD) < 0)
		REFUSE(-EBADF, "file descriptor %d is not open; the engine %s needs a file", spec->fd, engine->name);
	return 0;
}

int gpuio_spec_check(const struct gpuio_spec *spec, const struct gpuio_engine *engine, struct gpuio_why *why)
{
	struct gpuio_offsets offsets;
	int rc;

	if (!spec->clock || !spec->pool)
		REFUSE(-EINVAL, "a run needs a clock and a buffer pool");
	rc = check_geometry(spec, engine, why);
	if (rc == 0)
		rc = check_kind(spec, engine, why);
	if (rc == 0)
		rc = check_arrivals(spec, why);
	if (rc == 0)
		rc = check_gpus(spec, engine, why);
	if (rc == 0)
		rc = gpuio_replay_check(spec, engine_moves_data(engine), why);
	if (rc == 0)
		rc = check_file(spec, engine, why);
	if (rc == 0 && !spec->replay.records)
		rc = gpuio_offsets_init(&offsets, spec, spec->jobs - 1, why);
	return rc;
}
