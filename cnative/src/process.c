/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <sys/resource.h>
#include <time.h>

static uint64_t cpu_clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

void gpuio_usage_read(struct gpuio_usage *usage)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	usage->user_ns = timeval_ns(r.ru_utime);
	usage->system_ns = timeval_ns(r.ru_stime);
	usage->minor_faults = (uint64_t)r.ru_minflt;
	usage->major_faults = (uint64_t)r.ru_majflt;
	usage->voluntary_switches = (uint64_t)r.ru_nvcsw;
	usage->involuntary_switches = (uint64_t)r.ru_nivcsw;
	usage->cpu_ns = cpu_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void gpuio_usage_between(const struct gpuio_usage *from, const struct gpuio_usage *to, struct gpuio_window *window)
{
	window->cpu_ns = to->cpu_ns - from->cpu_ns;
	window->user_ns = to->user_ns - from->user_ns;
	window->system_ns = to->system_ns - from->system_ns;
	window->minor_faults = to->minor_faults - from->minor_faults;
	window->major_faults = to->major_faults - from->major_faults;
	window->voluntary_switches = to->voluntary_switches - from->voluntary_switches;
	window->involuntary_switches = to->involuntary_switches - from->involuntary_switches;
}

uint64_t gpuio_thread_cpu_ns(void)
{
	return cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
