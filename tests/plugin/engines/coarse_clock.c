/* SPDX-License-Identifier: Apache-2.0 */
/* coarse_clock.c - preloaded: CLOCK_MONOTONIC steps once in a kernel tick (1 to 10 ms), as on a machine with jiffies only. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock == CLOCK_MONOTONIC)
		clock = CLOCK_MONOTONIC_COARSE;
	return (int)syscall(SYS_clock_gettime, clock, now);
}
