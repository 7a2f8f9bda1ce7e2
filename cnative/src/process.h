/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - CPU readings of this process. */
#ifndef GPUIO_PROCESS_H
#define GPUIO_PROCESS_H

#include "gpuio.h"

struct gpuio_usage {
	uint64_t cpu_ns; /* CLOCK_PROCESS_CPUTIME_ID: exited threads and io_uring's kernel helpers are in it */
	uint64_t user_ns, system_ns;
	uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
};

void gpuio_usage_read(struct gpuio_usage *usage);
void gpuio_usage_between(const struct gpuio_usage *from, const struct gpuio_usage *to, struct gpuio_window *window);
uint64_t gpuio_thread_cpu_ns(void);

#endif
