/* SPDX-License-Identifier: Apache-2.0 */
/* uring_why.c - why a ring, or a part of it, cannot be had. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "engines/uring.h"
#include "why.h"

#define MOST_ENTRIES 32768u

/* First number in proc/name after `key` at the start of a line ("" = the first line); -1 when there is none. */
static long number_in(const char *proc, const char *name, const char *key)
{
	char path[256], line[256];
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		if (sscanf(line + strlen(key), " %ld", &value) != 1)
			value = -1;
		break;
	}
	fclose(f);
	return value;
}

static void explain_invalid(const struct io_uring_params *params, unsigned entries, struct gpuio_why *why)
{
	if (entries > MOST_ENTRIES)
		gpuio_say(why, "the kernel refuses a ring of %u entries (Invalid argument): the most is %u", entries, MOST_ENTRIES);
	else if (params->flags & IORING_SETUP_SQ_AFF)
		gpuio_say(why, "the submission poller cannot have CPU %u: choose one that is online and allowed, see "
			  "Cpus_allowed_list in /proc/self/status", params->sq_thread_cpu);
	else if (params->flags & IORING_SETUP_SQE128)
		gpuio_say(why, "the kernel has no rings for passthrough commands (SQE128 with CQE32, Linux 5.19)");
	else
		gpuio_say(why, "the kernel does not know this kind of ring (set-up flags 0x%x, Invalid argument): use io_uring, or a "
			  "newer kernel", params->flags);
}

void gpuio_uring_explain_setup(int error, const struct io_uring_params *params, unsigned entries, const char *proc,
			       struct gpuio_why *why)
{
	long disabled = number_in(proc, "sys/kernel/io_uring_disabled", "");
	long filter = number_in(proc, "self/status", "Seccomp:");

	if (error == EPERM && disabled > 0)
		gpuio_say(why, "io_uring is switched off on this machine (sysctl kernel.io_uring_disabled is %ld): ask for "
			  "sysctl -w kernel.io_uring_disabled=0%s", disabled,
			  disabled == 1 ? " or for membership in the group of kernel.io_uring_group" : "");
	else if ((error == EPERM || error == EACCES) && filter == 2)
		gpuio_say(why, "a seccomp filter (container or sandbox) forbids io_uring: allow io_uring_setup, io_uring_enter and "
			  "io_uring_register there, in docker with --security-opt seccomp=...");
	else if (error == EPERM && params->flags & IORING_SETUP_SQPOLL)
		gpuio_say(why, "this kernel lets only the privileged have a submission poller: run with CAP_SYS_NICE (Linux 5.11) or "
			  "CAP_SYS_ADMIN (before that), or use Linux 5.13 or newer");
	else if (error == ENOSYS)
		gpuio_say(why, "the kernel has no io_uring (Linux 5.6 or newer has it all)%s",
			  filter == 2 ? ", or the seccomp filter of this container hides it" : "");
	else if (error == ENOMEM)
		gpuio_say(why, "a ring of %u entries does not fit the locked memory limit (ulimit -l): raise it or lower depth or "
			  "jobs", entries);
	else if (error == EINVAL)
		explain_invalid(params, entries, why);
	else
		gpuio_say(why, "a ring of %u entries cannot be set up (%s)", entries, strerror(error));
}

void gpuio_uring_explain_buffers(int error, uint64_t bytes, struct gpuio_why *why)
{
	struct rlimit limit = {0, 0};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
		gpuio_say(why, "fixed buffers are off: registering needs RLIMIT_MEMLOCK of %" PRIu64 " bytes and more for other jobs, it "
			  "is %" PRIu64 ": raise ulimit -l or grant CAP_IPC_LOCK", bytes, (uint64_t)limit.rlim_cur);
	else
		gpuio_say(why, "fixed buffers are off: registering %" PRIu64 " bytes failed (%s)", bytes, strerror(error));
}
