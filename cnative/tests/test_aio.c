/* SPDX-License-Identifier: Apache-2.0 */
/* Kept contexts: one is used again, by whoever needs no more than it holds, and the kernel knows each until it is ended. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aio.h"
#include "fixture.h"

static bool alive(struct gpuio_aio_context context)
{
	struct timespec now = {0, 0};
	struct io_event event;
	long rc = syscall(SYS_io_getevents, context.id, 0L, 1L, &event, &now);

	CHECK(rc == 0 || errno == EINVAL);
	return rc == 0;
}

static struct gpuio_aio_context take(struct gpuio_aio *aio, unsigned depth)
{
	struct gpuio_aio_context context;

	CHECK_EQ(gpuio_aio_take(aio, depth, &context), 0);
	CHECK(context.depth >= depth);
	CHECK(alive(context));
	return context;
}

static void used_again(void)
{
	struct gpuio_aio_context small, large, again;
	struct gpuio_aio aio;

	gpuio_aio_init(&aio);
	small = take(&aio, 4);
	large = take(&aio, 64);
	CHECK(small.id != large.id);
	gpuio_aio_give_back(&aio, large);
	gpuio_aio_give_back(&aio, small);
	CHECK(alive(small) && alive(large));
	again = take(&aio, 2);
	CHECK(again.id == small.id);
	again = take(&aio, 2); /* the small one is out */
	CHECK(again.id == large.id);
	again = take(&aio, 2);
	CHECK(again.id != small.id && again.id != large.id);
	gpuio_aio_end(again);
	CHECK(!alive(again));
	gpuio_aio_give_back(&aio, large);
	again = take(&aio, 65); /* the large one is too small */
	CHECK(again.id != large.id);
	gpuio_aio_end(again);
	gpuio_aio_end(small);
	gpuio_aio_close(&aio);
	CHECK(!alive(large));
}

static void not_kept_without_end(void)
{
	struct gpuio_aio_context all[GPUIO_AIO_KEPT + 1];
	struct gpuio_aio aio;

	gpuio_aio_init(&aio);
	for (unsigned i = 0; i <= GPUIO_AIO_KEPT; i++)
		all[i] = take(&aio, 1);
	for (unsigned i = 0; i <= GPUIO_AIO_KEPT; i++)
		gpuio_aio_give_back(&aio, all[i]);
	for (unsigned i = 0; i <= GPUIO_AIO_KEPT; i++)
		CHECK_EQ(alive(all[i]), i < GPUIO_AIO_KEPT);
	gpuio_aio_close(&aio);
	for (unsigned i = 0; i <= GPUIO_AIO_KEPT; i++)
		CHECK(!alive(all[i]));
}

static void none_in_a_fork(void)
{
	struct gpuio_aio_context context;
	struct gpuio_aio aio;
	int status;
	pid_t pid;

	gpuio_aio_init(&aio);
	context = take(&aio, 8);
	gpuio_aio_give_back(&aio, context);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		gpuio_aio_end(take(&aio, 8)); /* a new one, which works */
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(alive(context));
	gpuio_aio_close(&aio);
}

int main(void)
{
	struct gpuio_aio_context context;
	struct gpuio_aio aio;

	gpuio_aio_init(&aio);
	if (gpuio_aio_take(&aio, 1, &context) == -ENOSYS)
		return 77; /* skipped: this kernel has none */
	gpuio_aio_end(context);
	used_again();
	not_kept_without_end();
	none_in_a_fork();
	return 0;
}
