/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/liburing.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

/* liburing's ffi build exports what its header otherwise inlines. */
static const struct {
	const char *symbol;
	size_t place;
} functions[] = {
	{"io_uring_queue_init_params", offsetof(struct gpuio_liburing, queue_init_params)},
	{"io_uring_queue_exit", offsetof(struct gpuio_liburing, queue_exit)},
	{"io_uring_get_sqe", offsetof(struct gpuio_liburing, get_sqe)},
	{"io_uring_submit", offsetof(struct gpuio_liburing, submit)},
	{"io_uring_submit_and_wait", offsetof(struct gpuio_liburing, submit_and_wait)},
	{"io_uring_submit_and_get_events", offsetof(struct gpuio_liburing, submit_and_get_events)},
	{"io_uring_peek_batch_cqe", offsetof(struct gpuio_liburing, peek_batch_cqe)},
	{"io_uring_cq_advance", offsetof(struct gpuio_liburing, cq_advance)},
	{"io_uring_register_buffers", offsetof(struct gpuio_liburing, register_buffers)},
	{"io_uring_register_files", offsetof(struct gpuio_liburing, register_files)},
};

int gpuio_liburing_open(struct gpuio_liburing *lib, const char *library, struct gpuio_why *why)
{
	const char *named = library ? library : getenv("GPUIO_LIBURING");
	const char *path = named && named[0] ? named : "liburing-ffi.so.2";

	memset(lib, 0, sizeof(*lib));
	/* NODELETE: a run that was given up must not lose the code under its feet. LAZY: the copy in PyPI's wheel is a Python
	 * extension, whose other half need not resolve. */
	lib->handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
	if (!lib->handle) {
		gpuio_say(why, "liburing cannot be opened (%s): pip install liburing (x86-64), or install liburing-ffi.so.2, or "
			  "name the library in GPUIO_LIBURING", dlerror());
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(lib->handle, functions[i].symbol);

		if (!address) {
			gpuio_say(why, "%s lacks %s: use liburing 2.4 or newer in its ffi build (liburing-ffi)", path,
				  functions[i].symbol);
			gpuio_liburing_close(lib);
			return -ELIBACC;
		}
		memcpy((char *)lib + functions[i].place, &address, sizeof(address));
	}
	return 0;
}

void gpuio_liburing_close(struct gpuio_liburing *lib)
{
	if (lib->handle)
		dlclose(lib->handle);
	lib->handle = NULL;
}
