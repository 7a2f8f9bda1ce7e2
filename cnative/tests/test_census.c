/* SPDX-License-Identifier: Apache-2.0 */
/* CPU clocks of processes and threads, against the calls that read one of them. */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#define ROOM 65536u

static int32_t ids[ROOM];
static uint64_t ns[ROOM];

static uint64_t own(clockid_t id)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(id, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Between two readings of its own clock. */
static void found_between(int n, int32_t id, uint64_t least, uint64_t most)
{
	int times = 0;

	for (int i = 0; i < n; i++) {
		if (ids[i] != id)
			continue;
		times++;
		CHECK(ns[i] >= least && ns[i] <= most);
	}
	CHECK_EQ(times, 1);
}

static void *waiting(void *arg)
{
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

int main(void)
{
	uint64_t before = own(CLOCK_PROCESS_CPUTIME_ID);
	int n = gpuio_census(0, ids, ns, ROOM), threads;
	pthread_barrier_t barrier;
	pthread_t thread;

	CHECK(n > 0 && (uint32_t)n <= ROOM);
	found_between(n, (int32_t)getpid(), before, own(CLOCK_PROCESS_CPUTIME_ID));

	threads = gpuio_census(1, ids, ns, ROOM);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK_EQ(pthread_create(&thread, NULL, waiting, &barrier), 0);
	pthread_barrier_wait(&barrier);
	before = own(CLOCK_THREAD_CPUTIME_ID);
	n = gpuio_census(1, ids, ns, ROOM);
	/* A sanitizer may have started a thread of its own, too. */
	CHECK(n > threads);
	found_between(n, (int32_t)syscall(SYS_gettid), before, own(CLOCK_THREAD_CPUTIME_ID));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);

	/* Too little room: how much is needed, and nothing written behind the end. */
	ids[1] = -7;
	ns[1] = 7;
	CHECK(gpuio_census(0, ids, ns, 1) > 1);
	CHECK_EQ(ids[1], -7);
	CHECK_EQ(ns[1], 7);
	CHECK(gpuio_census(0, NULL, NULL, 0) > 1);
	return 0;
}
