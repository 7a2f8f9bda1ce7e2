/* SPDX-License-Identifier: Apache-2.0 */
/* sigbus.h - survives the SIGBUS of a mapped file that cannot be read or has shrunk. */
#ifndef GPUIO_ENGINES_SIGBUS_H
#define GPUIO_ENGINES_SIGBUS_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* The handler is the process's, so all who need it share it: the first one puts it there, the last one restores what was before.
 * 0 or -errno. The calling thread then also receives SIGBUS. */
int gpuio_sigbus_hold(void);
void gpuio_sigbus_release(void);

/* To be called where the jump lands: the next SIGBUS gets in again. */
void gpuio_sigbus_landed(void);

/* While set, a SIGBUS of this thread jumps there; NULL = it means what it meant before. */
extern _Thread_local sigjmp_buf *gpuio_sigbus_escape;

/* Calls copy(how, to, from, bytes). Returns bytes, or -EFAULT when a page of the map could not be had: the file has shrunk, or its
 * medium failed. */
int64_t gpuio_sigbus_guard(void (*copy)(void *how, void *to, const void *from, size_t bytes), void *how, void *to,
			   const void *from, size_t bytes);

#endif
