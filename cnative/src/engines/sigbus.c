/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/sigbus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

_Thread_local sigjmp_buf *gpuio_sigbus_escape;

/* A signal's handler belongs to the process: this cannot be kept per job. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned holders;
static struct sigaction before;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	sigjmp_buf *escape = gpuio_sigbus_escape;

	if (escape)
		siglongjmp(*escape, 1);
	/* Somebody else's: as if this handler had never been here. */
	if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else {
		struct sigaction fatal;

		memset(&fatal, 0, sizeof(fatal));
		fatal.sa_handler = SIG_DFL;
		sigaction(SIGBUS, &fatal, NULL); /* the access is tried again, and kills */
	}
}

static int unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	return -pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int gpuio_sigbus_hold(void)
{
	struct sigaction mine;
	int rc = 0;

	memset(&mine, 0, sizeof(mine));
	mine.sa_sigaction = on_sigbus;
	mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigemptyset(&mine.sa_mask);
	pthread_mutex_lock(&lock);
	if (holders == 0 && sigaction(SIGBUS, &mine, &before) != 0)
		rc = -errno;
	else
		holders++;
	pthread_mutex_unlock(&lock);
	/* Workers block all signals; a blocked SIGBUS would kill all the same. */
	return rc ? rc : unblock();
}

void gpuio_sigbus_landed(void)
{
	gpuio_sigbus_escape = NULL;
	/* The jump left the handler without returning, and with the signal blocked. */
	unblock();
}

void gpuio_sigbus_release(void)
{
	pthread_mutex_lock(&lock);
	if (--holders == 0)
		sigaction(SIGBUS, &before, NULL);
	pthread_mutex_unlock(&lock);
}

int64_t gpuio_sigbus_guard(void (*copy)(void *how, void *to, const void *from, size_t bytes), void *how, void *to,
			   const void *from, size_t bytes)
{
	sigjmp_buf escape;

	if (sigsetjmp(escape, 0) != 0) {
		gpuio_sigbus_landed();
		return -EFAULT;
	}
	gpuio_sigbus_escape = &escape;
	/* The fault must come between these two lines. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	copy(how, to, from, bytes);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	gpuio_sigbus_escape = NULL;
	return (int64_t)bytes;
}
