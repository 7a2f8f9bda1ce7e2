/* SPDX-License-Identifier: Apache-2.0 */
/* cufile_target.c - a worker's file and buffers, registered with cuFile. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "engines/cufile.h"
#include "why.h"

int gpuio_cufile_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_cufile_lib lib;
	int rc = gpuio_cufile_lib_open(&lib, library, why);

	gpuio_cufile_lib_close(&lib);
	return rc;
}

/* The file once more, with no flags but those that decide how bytes move: cuFile refuses descriptors that were opened with
 * O_NOFOLLOW, O_NOATIME or O_TMPFILE (5019). The link in /proc leads to the open file itself, whatever lies at its name by now. */
static int open_again(int fd)
{
	int flags = fcntl(fd, F_GETFL), again;
	char link[32];

	if (flags < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	again = open(link, (flags & (O_ACCMODE | O_DIRECT | O_DSYNC)) | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

static int register_file(struct cufile_target *target, struct gpuio_job *job)
{
	struct cufile_descriptor descriptor = {.type = CUFILE_HANDLE_TYPE_FD};
	struct cufile_error error;

	target->fd = open_again(job->spec->fd);
	if (target->fd < 0) {
		gpuio_say(&job->why, "the target cannot be opened once more for cuFile (%s): raise ulimit -n, or lower jobs",
			  strerror(-target->fd));
		return target->fd;
	}
	descriptor.handle.fd = target->fd;
	error = target->lib.handle_register(&target->file, &descriptor);
	if (error.code == 0)
		return 0;
	target->file = NULL;
	gpuio_say(&job->why, "cuFileHandleRegister refused the target (cuFile code %d)", error.code);
	return -error.code;
}

static void forget_buffers(struct cufile_target *target)
{
	while (target->registered)
		target->lib.buf_deregister(target->base + --target->registered * target->stride);
}

/* Each by itself: some releases leave offsets behind a registered base out of account (batches into host memory, streams). */
static void register_buffers(struct cufile_target *target, struct gpuio_job *job)
{
	struct cufile_error error = {0, 0};

	while (target->registered < job->slots && error.code == 0) {
		error = target->lib.buf_register(target->base + target->registered * target->stride, target->stride, 0);
		target->registered += error.code == 0;
	}
	if (error.code == 0) {
		job->effective |= GPUIO_KNOB_FIXED_BUFFERS;
		return;
	}
	gpuio_say(&job->why, "cuFileBufRegister refused buffer %u of %u, of %llu bytes (cuFile code %d, CUDA code %d)",
		  target->registered + 1, job->slots, (unsigned long long)target->stride, error.code, error.cuda);
	forget_buffers(target);
}

int gpuio_cufile_target_open(struct cufile_target *target, struct gpuio_job *job)
{
	int rc;

	target->fd = -1;
	rc = gpuio_cufile_lib_open(&target->lib, job->spec->library, &job->why);
	if (rc)
		return rc;
	if (target->lib.use_count && target->lib.use_count() < 1) {
		gpuio_say(&job->why, "the driver of this libcufile is not open in this process: it is opened once, before any run "
			  "(gpuio_cufile_open)");
		return -EBADF;
	}
	rc = register_file(target, job);
	if (rc)
		return rc;
	target->base = job->ios[0].buf;
	target->stride = slot_stride(job->spec->block);
	if (job->spec->knobs & GPUIO_KNOB_FIXED_BUFFERS)
		register_buffers(target, job);
	return 0;
}

void gpuio_cufile_target_close(struct cufile_target *target)
{
	forget_buffers(target);
	if (target->file)
		target->lib.handle_deregister(target->file);
	if (target->fd >= 0)
		close(target->fd);
	gpuio_cufile_lib_close(&target->lib);
}
