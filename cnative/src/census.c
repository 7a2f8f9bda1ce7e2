/* SPDX-License-Identifier: Apache-2.0 */
/* census.c - the CPU clock of every process of the host, or of every thread of this one: read at both ends of each cell, where hosts
 * have thousands of processes. */
#include <dirent.h>
#include <errno.h>
#include <time.h>

#include "gpuio.h"

/* CPUCLOCK_SCHED of a process, and CPUCLOCK_PERTHREAD with it: as clock_getcpuclockid() and pthread_getcpuclockid() make them. */
enum { CLOCK_OF_PROCESS = 2, CLOCK_OF_THREAD = 6 };

/* The number that a name is; -1 = it is none, as `self` and `meminfo`. */
static int32_t number(const char *name)
{
	int32_t value = 0;

	for (const char *c = name; *c; c++) {
		if (*c < '0' || *c > '9' || value > (INT32_MAX - 9) / 10)
			return -1;
		value = value * 10 + (*c - '0');
	}
	return *name ? value : -1;
}

int gpuio_census(int threads, int32_t *ids, uint64_t *ns, uint32_t room)
{
	DIR *folder = opendir(threads ? "/proc/self/task" : "/proc");
	const struct dirent *entry;
	int found = 0;

	if (!folder)
		return -errno;
	while ((entry = readdir(folder))) {
		int32_t id = number(entry->d_name);
		struct timespec t;

		if (id <= 0)
			continue;
		if (clock_gettime((clockid_t)((~(uint32_t)id << 3) | (threads ? CLOCK_OF_THREAD : CLOCK_OF_PROCESS)), &t) != 0)
			continue; /* it ended after the listing */
		if ((uint32_t)found < room) {
			ids[found] = id;
			ns[found] = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		}
		found++;
	}
	closedir(folder);
	return found;
}
