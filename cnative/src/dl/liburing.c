/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/liburing.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

static const struct {
	const char *symbol;
	size_t place;
} functions[] = {
	{"io_uring_queue_init_params", offsetof(struct gpuio_liburing, queue_init_params)},
	{"io_uring_queue_exit", offsetof(struct gpuio_liburing, queue_exit)},
	{"io_uring_submit", offsetof(struct gpuio_liburing, submit)},
	{"io_uring_submit_and_wait", offsetof(struct gpuio_liburing, submit_and_wait)},
	{"io_uring_submit_and_get_events", offsetof(struct gpuio_liburing, submit_and_get_events)},
	{"io_uring_submit_and_wait_timeout", offsetof(struct gpuio_liburing, submit_and_wait_timeout)},
	{"io_uring_register_buffers", offsetof(struct gpuio_liburing, register_buffers)},
	{"io_uring_register_files", offsetof(struct gpuio_liburing, register_files)},
};

int gpuio_liburing_open(struct gpuio_liburing *lib, const char *library, struct gpuio_why *why)
{
	/* NODELETE: a run that was given up must not lose the code under its feet. LAZY: the copy in PyPI's wheel is a Python
	 * extension, whose other half need not resolve. */
	static const int mode = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
	const char *named = library ? library : getenv("GPUIO_LIBURING");
	const char *path = named && named[0] ? named : "liburing-ffi.so.2";

	memset(lib, 0, sizeof(*lib));
	lib->handle = dlopen(path, mode);
	if (!lib->handle && path != named) /* the ordinary build has all that is called here */
		lib->handle = dlopen("liburing.so.2", mode);
	if (!lib->handle) {
		gpuio_say(why, "liburing cannot be opened (%s): pip install liburing (x86-64), or install liburing.so.2, or "
			  "name the library in GPUIO_LIBURING", dlerror());
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(lib->handle, functions[i].symbol);

		if (!address) {
			gpuio_say(why, "%s lacks %s: use liburing 2.3 or newer", path,
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

int gpuio_liburing_fits(const struct io_uring *ring, const struct io_uring_params *params, struct gpuio_why *why)
{
	/* What the library only copies is compared first: the pointers mean nothing before that. */
	if (ring->flags == params->flags && ring->features == params->features && ring->ring_fd >= 0 &&
	    *ring->sq.kring_entries == params->sq_entries && *ring->sq.kring_mask == params->sq_entries - 1 &&
	    *ring->cq.kring_entries == params->cq_entries && *ring->cq.kring_mask == params->cq_entries - 1)
		return 0;
	gpuio_say(why, "this liburing lays out its rings in a way that is not known here: use a library of the liburing 2 series");
	return -ELIBACC;
}
