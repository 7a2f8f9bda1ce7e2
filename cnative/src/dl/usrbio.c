/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/usrbio.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

static const struct {
	const char *symbol;
	size_t place;
} functions[] = {
	{"hf3fs_is_hf3fs", offsetof(struct gpuio_usrbio_lib, is_3fs)},
	{"hf3fs_extract_mount_point", offsetof(struct gpuio_usrbio_lib, mount_point)},
	{"hf3fs_iovcreate", offsetof(struct gpuio_usrbio_lib, iov_create)},
	{"hf3fs_iovdestroy", offsetof(struct gpuio_usrbio_lib, iov_destroy)},
	{"hf3fs_iorcreate4", offsetof(struct gpuio_usrbio_lib, ior_create)},
	{"hf3fs_iordestroy", offsetof(struct gpuio_usrbio_lib, ior_destroy)},
	{"hf3fs_reg_fd", offsetof(struct gpuio_usrbio_lib, reg_fd)},
	{"hf3fs_dereg_fd", offsetof(struct gpuio_usrbio_lib, dereg_fd)},
	{"hf3fs_prep_io", offsetof(struct gpuio_usrbio_lib, prepare)},
	{"hf3fs_submit_ios", offsetof(struct gpuio_usrbio_lib, submit)},
	{"hf3fs_wait_for_ios", offsetof(struct gpuio_usrbio_lib, wait)},
};

int gpuio_usrbio_lib_open(struct gpuio_usrbio_lib *lib, const char *library, struct gpuio_why *why)
{
	/* NODELETE: it starts threads for its log and work at exit, which need the code. */
	static const int mode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	const char *named = library ? library : getenv(USRBIO_ENV);
	const char *path = named && named[0] ? named : "libhf3fs_api_shared.so";

	memset(lib, 0, sizeof(*lib));
	lib->handle = dlopen(path, mode);
	if (!lib->handle) {
		gpuio_say(why, "3FS's client library cannot be opened (%s): install 3FS's client here, or name its "
			  "libhf3fs_api_shared.so in " USRBIO_ENV, dlerror());
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(lib->handle, functions[i].symbol);

		if (!address) {
			gpuio_say(why, "%s lacks %s: it is no client library of 3FS, or too old for this tool", path,
				  functions[i].symbol);
			gpuio_usrbio_lib_close(lib);
			return -ELIBACC;
		}
		memcpy((char *)lib + functions[i].place, &address, sizeof(address));
	}
	return 0;
}

void gpuio_usrbio_lib_close(struct gpuio_usrbio_lib *lib)
{
	if (lib->handle)
		dlclose(lib->handle);
	lib->handle = NULL;
}
