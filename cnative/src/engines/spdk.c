/* SPDX-License-Identifier: Apache-2.0 */
/* spdk.c - NVMe from user space: a queue pair per job, polled; requests above the controller's limit go in parts. */
#include "spdk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "registry.h"
#include "why.h"

#define MAX_DEPTH 255u /* SPDK's queue pairs have 256 entries, one of which stays free */

struct spdk_request {
	struct spdk_state *state;
	struct gpuio_io *io;
	uint32_t sent;   /* bytes given to SPDK */
	uint32_t flying; /* parts of them that have not ended */
	int result;      /* first error, or 0 */
};

struct spdk_state {
	struct gpuio_spdk *spdk;
	void *qpair;
	uint32_t slots, nhead, ntail; /* finished: a ring of slots + 1 places */
	uint32_t limit;               /* bytes of a part */
	struct gpuio_io **finished;
	struct spdk_request *partial; /* one request of which SPDK took the first parts only */
	struct spdk_request requests[];
};

static void finish(struct spdk_request *request)
{
	struct spdk_state *s = request->state;

	request->io->result = request->result ? request->result : (int64_t)request->io->length;
	s->finished[s->ntail] = request->io;
	s->ntail = (s->ntail + 1) % (s->slots + 1);
}

static void part_ended(void *arg, const unsigned char *completion)
{
	struct spdk_request *request = arg;
	int rc = gpuio_spdk_status(completion);

	if (rc && request->result == 0)
		request->result = rc;
	request->flying--;
	if (request->flying == 0 && request->sent == request->io->length)
		finish(request);
}

/* Gives SPDK what it takes; 1 = all of it, 0 = it is full. Refusals for other reasons are the request's result. */
static int send_parts(struct spdk_state *s, struct spdk_request *request)
{
	const struct gpuio_spdk *spdk = s->spdk;
	const struct gpuio_io *io = request->io;
	uint32_t sector = spdk->info.sector;

	while (request->sent < io->length) {
		uint32_t left = io->length - request->sent, part = left < s->limit ? left : s->limit;
		uint64_t lba = (io->offset + request->sent) / sector;
		unsigned char *buf = (unsigned char *)io->buf + request->sent;
		int rc;

		/* Counted first: a transport may end the part before the call returns. */
		request->flying++;
		request->sent += part;
		rc = (io->op == GPUIO_READ ? spdk->lib.read : spdk->lib.write)(spdk->ns, s->qpair, buf, lba, part / sector, part_ended,
									       request, 0);
		if (rc == 0)
			continue;
		request->flying--;
		request->sent -= part;
		if (rc == -ENOMEM || rc == -EAGAIN)
			return 0;
		if (request->result == 0)
			request->result = rc;
		request->sent = io->length; /* the rest is not tried */
		if (request->flying == 0)
			finish(request);
	}
	return 1;
}

static int spdk_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_spdk_lib lib;

	return gpuio_spdk_lib_open(&lib, library, why);
}

static int check(struct gpuio_job *job)
{
	const struct gpuio_spec *spec = job->spec;
	const struct gpuio_spdk_info *info = &spec->spdk->info;

	if (spec->depth > MAX_DEPTH) {
		gpuio_say(&job->why, "queue depth %" PRIu32 ": a queue pair of SPDK holds %u, use more jobs instead", spec->depth,
			  MAX_DEPTH);
		return -EINVAL;
	}
	if (spec->block % info->sector || spec->region_offset % info->sector) {
		gpuio_say(&job->why, "blocks of %" PRIu32 " bytes from offset %" PRIu64 " on are not whole sectors of %" PRIu32 " bytes",
			  spec->block, spec->region_offset, info->sector);
		return -EINVAL;
	}
	if (spec->region_offset + spec->region_bytes > info->bytes) {
		gpuio_say(&job->why, "the region ends at byte %" PRIu64 ", the namespace at %" PRIu64,
			  spec->region_offset + spec->region_bytes, info->bytes);
		return -EINVAL;
	}
	if (spec->replay.records || spec->gpu.ordinals) {
		gpuio_say(&job->why, "spdk %s: use another data path", spec->replay.records ? "does not replay records" :
			  "reads into host memory only");
		return -ENOTSUP;
	}
	return 0;
}

/* Commands reach memory of SPDK's only, so the requests get such buffers instead of the pool's. */
static int take_buffers(struct gpuio_job *job, struct spdk_state *s)
{
	for (uint32_t i = 0; i < job->slots; i++) {
		void *buf = s->spdk->lib.zmalloc(job->spec->block, SPDK_ALIGN, NULL, SPDK_ANY_NODE, SPDK_MALLOC_DMA);

		if (!buf) {
			gpuio_say(&job->why, "SPDK has no memory left for buffer %" PRIu32 " of %" PRIu32 " with %" PRIu32 " bytes in job %"
				  PRIu32 ": reserve more huge pages (vm.nr_hugepages), or lower block size, queue depth or jobs",
				  i + 1, job->slots, job->spec->block, job->worker);
			return -ENOMEM;
		}
		job->ios[i].buf = buf;
		job->ios[i].priv = &s->requests[i];
		s->requests[i].state = s;
		s->requests[i].io = &job->ios[i];
	}
	return 0;
}

static int spdk_open(struct gpuio_job *job)
{
	const struct gpuio_spec *spec = job->spec;
	struct spdk_state *s;
	uint32_t parts;
	int rc = check(job);

	if (rc)
		return rc;
	s = calloc(1, sizeof(*s) + job->slots * sizeof(s->requests[0]));
	if (!s)
		return -ENOMEM;
	job->priv = s;
	s->spdk = spec->spdk;
	s->slots = job->slots;
	s->limit = spec->spdk->info.max_transfer;
	s->finished = calloc(job->slots + 1, sizeof(*s->finished));
	if (!s->finished)
		return -ENOMEM;
	s->qpair = s->spdk->lib.alloc_qpair(s->spdk->controller, NULL, 0);
	if (!s->qpair) {
		gpuio_say(&job->why, "SPDK has no queue pair for job %" PRIu32 ": the controller has too few (one per job and one more), "
			  "or memory is short", job->worker);
		return -ENOMEM;
	}
	rc = take_buffers(job, s);
	if (rc)
		return rc;
	parts = (spec->block + s->limit - 1) / s->limit;
	gpuio_say(&job->facts, "sector=%" PRIu32 " largest_transfer=%" PRIu32 " parts=%" PRIu32, s->spdk->info.sector, s->limit, parts);
	return 0;
}

static int spdk_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct spdk_state *s = job->priv;
	unsigned taken = 0;

	while (taken < n && !s->partial) {
		struct spdk_request *request = ios[taken]->priv;

		request->sent = request->flying = 0;
		request->result = 0;
		if (!send_parts(s, request)) {
			if (request->sent == 0)
				break;
			s->partial = request;
		}
		taken++;
	}
	return (int)taken;
}

static int look(struct gpuio_job *job, struct spdk_state *s)
{
	if (s->partial && send_parts(s, s->partial))
		s->partial = NULL;
	if (s->spdk->lib.completions(s->qpair, 0) >= 0)
		return 0;
	gpuio_say(&job->why, "SPDK lost the controller (%s), or the connection to it", s->spdk->info.model);
	return -ENODEV;
}

static unsigned take_finished(struct spdk_state *s, struct gpuio_io **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && s->nhead != s->ntail) {
		done[n++] = s->finished[s->nhead];
		s->nhead = (s->nhead + 1) % (s->slots + 1);
	}
	return n;
}

static int spdk_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct spdk_state *s = job->priv;
	unsigned n = 0;

	do {
		int rc = look(job, s);

		n += take_finished(s, done + n, max - n);
		if (rc && n < min)
			return rc;
	} while (n < min);
	return (int)n;
}

static int spdk_wait(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns)
{
	struct spdk_state *s = job->priv;

	do {
		int rc = look(job, s);
		unsigned n = take_finished(s, done, max);

		if (n)
			return (int)n;
		if (rc)
			return rc;
	} while (mono_ns() < deadline_ns);
	return 0;
}

/* Nothing is in flight, so that another queue pair will do. */
static int spdk_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	(void)file;
	(void)fd;
	(void)whole;
	return gpuio_spdk_transfer(job->spec->spdk, GPUIO_FSYNC, NULL, 0, 0, NULL);
}

static int64_t spdk_read_back(struct gpuio_job *job, int fd, void *buf, uint32_t length, uint64_t offset)
{
	int rc = gpuio_spdk_transfer(job->spec->spdk, GPUIO_READ, buf, length, offset, NULL);

	(void)fd;
	return rc ? rc : (int64_t)length;
}

static void spdk_close(struct gpuio_job *job)
{
	struct spdk_state *s = job->priv;

	if (!s)
		return;
	/* Ends what is still in flight, whose callbacks come now. */
	s->partial = NULL;
	if (s->qpair)
		s->spdk->lib.free_qpair(s->qpair);
	for (uint32_t i = 0; i < s->slots; i++)
		if (s->requests[i].io) {
			s->spdk->lib.free(job->ios[i].buf);
			job->ios[i].buf = NULL;
		}
	free(s->finished);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_spdk = {
	.name = "spdk",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_POLLED | GPUIO_ENGINE_NAMESPACE,
	.probe = spdk_probe,
	.open = spdk_open,
	.submit = spdk_submit,
	.reap = spdk_reap,
	.close = spdk_close,
	.wait = spdk_wait,
	.sync = spdk_sync,
	.read_back = spdk_read_back,
};
