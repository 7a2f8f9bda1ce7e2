/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c - after a window: is what it left in memory and on the medium what belongs there? */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "pattern.h"
#include "run.h"
#include "why.h"

struct finding {
	uint64_t checked, bad, first_bad;
};

static void judge(struct finding *finding, uint64_t bad_sectors, uint64_t first)
{
	finding->checked++;
	if (bad_sectors == 0)
		return;
	if (finding->bad++ == 0)
		finding->first_bad = first;
}

static int64_t read_once(struct gpuio_worker *w, const struct gpuio_io *io, void *scratch)
{
	ssize_t n;

	if (w->job.engine->read_back)
		return w->job.engine->read_back(&w->job, io->fd, scratch, io->length, io->offset);
	do {
		n = pread(io->fd, scratch, io->length, (off_t)io->offset);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int read_back(struct gpuio_worker *w, const struct gpuio_io *io, void *scratch, struct finding *finding,
		     struct gpuio_why *why)
{
	uint64_t first = io->offset, bad = 1;
	int64_t n = read_once(w, io, scratch);

	if (n < 0) {
		int err = (int)-n;

		gpuio_say(why, "written data at offset %" PRIu64 " cannot be read back (%s)%s", io->offset, strerror(err),
			  err == EBADF ? ": open the file for reading and writing" : "");
		return -err;
	}
	if (n == (int64_t)io->length)
		bad = gpuio_pattern_check(scratch, io->length, io->offset, w->run->seeds[io->file], &first);
	judge(finding, bad, first);
	return 0;
}

static int sweep_slot(struct gpuio_worker *w, const struct gpuio_io *io, void *scratch, struct finding *finding,
		      struct gpuio_why *why)
{
	uint64_t first = 0, bad;
	int rc;

	if (io->result != (int64_t)io->length || pattern_whole(io->length, io->offset) == 0)
		return 0;
	if (io->op == GPUIO_WRITE)
		return read_back(w, io, scratch, finding, why);
	if (w->side) {
		bool wrong;

		rc = gpuio_side_check(w, io, &wrong, &first);
		if (rc)
			*why = w->job.why;
		else
			judge(finding, wrong, first);
		return rc;
	}
	bad = gpuio_pattern_check(io->buf, io->length, io->offset, w->run->seeds[io->file], &first);
	judge(finding, bad, first);
	return 0;
}

static int sweep_worker(struct gpuio_worker *w, void *scratch, struct finding *finding, struct gpuio_why *why)
{
	int rc = w->side ? gpuio_device_enter(w->side->device, why) : 0;

	for (uint32_t i = 0; rc == 0 && i < w->job.slots; i++)
		rc = sweep_slot(w, &w->slots[i], scratch, finding, why);
	if (w->side)
		gpuio_device_leave(w->side->device);
	return rc;
}

int gpuio_sweep(struct gpuio_run *run, uint64_t *checked, uint64_t *bad, uint64_t *first_bad, struct gpuio_why *why)
{
	struct finding finding = {0, 0, 0};
	void *scratch;
	int rc = 0;

	gpuio_say(why, "%s", "");
	*checked = *bad = *first_bad = 0;
	if (!engine_moves_data(run->engine))
		return 0;
	if (!run->has_window) {
		gpuio_say(why, "there is no finished window to sweep");
		return -EINVAL;
	}
	scratch = aligned_alloc(GPUIO_PAGE, slot_stride(run->spec.block));
	if (!scratch) {
		gpuio_say(why, "there is no memory for a block of %" PRIu32 " bytes", run->spec.block);
		return -ENOMEM;
	}
	for (uint32_t i = 0; rc == 0 && i < run->spec.jobs; i++)
		rc = sweep_worker(&run->workers[i], scratch, &finding, why);
	free(scratch);
	*checked = finding.checked;
	*bad = finding.bad;
	*first_bad = finding.first_bad;
	return rc;
}
