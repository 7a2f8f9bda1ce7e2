/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/cufile.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "why.h"

static const struct {
	const char *symbol;
	size_t place;
	bool required;
} functions[] = {
	{"cuFileDriverOpen", offsetof(struct gpuio_cufile_lib, driver_open), true},
	{"cuFileDriverGetProperties", offsetof(struct gpuio_cufile_lib, properties), true},
	{"cuFileHandleRegister", offsetof(struct gpuio_cufile_lib, handle_register), true},
	{"cuFileHandleDeregister", offsetof(struct gpuio_cufile_lib, handle_deregister), true},
	{"cuFileBufRegister", offsetof(struct gpuio_cufile_lib, buf_register), true},
	{"cuFileBufDeregister", offsetof(struct gpuio_cufile_lib, buf_deregister), true},
	{"cuFileRead", offsetof(struct gpuio_cufile_lib, read), true},
	{"cuFileWrite", offsetof(struct gpuio_cufile_lib, write), true},
	{"cuFileUseCount", offsetof(struct gpuio_cufile_lib, use_count), false},
	{"cuFileBatchIOSetUp", offsetof(struct gpuio_cufile_lib, batch_setup), false},
	{"cuFileBatchIOSubmit", offsetof(struct gpuio_cufile_lib, batch_submit), false},
	{"cuFileBatchIOGetStatus", offsetof(struct gpuio_cufile_lib, batch_status), false},
	{"cuFileBatchIOCancel", offsetof(struct gpuio_cufile_lib, batch_cancel), false},
	{"cuFileBatchIODestroy", offsetof(struct gpuio_cufile_lib, batch_destroy), false},
	{"cuFileReadAsync", offsetof(struct gpuio_cufile_lib, read_async), false},
	{"cuFileWriteAsync", offsetof(struct gpuio_cufile_lib, write_async), false},
	{"cuFileStreamRegister", offsetof(struct gpuio_cufile_lib, stream_register), false},
	{"cuFileStreamDeregister", offsetof(struct gpuio_cufile_lib, stream_deregister), false},
	{"cuFileGetVersion", offsetof(struct gpuio_cufile_lib, version), false},
	{"cuFileSetStatsLevel", offsetof(struct gpuio_cufile_lib, set_stats_level), false},
	{"cuFileStatsStart", offsetof(struct gpuio_cufile_lib, stats_start), false},
	{"cuFileGetStatsL1", offsetof(struct gpuio_cufile_lib, stats_l1), false},
	{"cuFileGetStatsL3", offsetof(struct gpuio_cufile_lib, stats_l3), false},
};

/* The close that waits for what is under way came second and has a name of its own. */
static void *find_close(void *handle)
{
	void *address = dlsym(handle, "cuFileDriverClose_v2");

	return address ? address : dlsym(handle, "cuFileDriverClose");
}

int gpuio_cufile_lib_open(struct gpuio_cufile_lib *lib, const char *library, struct gpuio_why *why)
{
	/* NODELETE: its threads and its work at exit need the code, whatever is closed here. */
	static const int mode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	const char *named = library ? library : getenv("GPUIO_CUFILE");
	const char *path = named && named[0] ? named : "libcufile.so.0";
	void *close;

	memset(lib, 0, sizeof(*lib));
	lib->handle = dlopen(path, mode);
	if (!lib->handle) {
		gpuio_say(why, "cuFile cannot be opened (%s): pip install nvidia-cufile, or install CUDA's libcufile, or name the "
			  "library in GPUIO_CUFILE", dlerror());
		return -ELIBACC;
	}
	close = find_close(lib->handle);
	memcpy(&lib->driver_close, &close, sizeof(close));
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = dlsym(lib->handle, functions[i].symbol);

		if (!close || (!address && functions[i].required)) {
			gpuio_say(why, "%s lacks %s: it is no libcufile, or older than CUDA 11.4", path,
				  close ? functions[i].symbol : "cuFileDriverClose");
			gpuio_cufile_lib_close(lib);
			return -ELIBACC;
		}
		memcpy((char *)lib + functions[i].place, &address, sizeof(address));
	}
	return 0;
}

void gpuio_cufile_lib_close(struct gpuio_cufile_lib *lib)
{
	if (lib->handle)
		dlclose(lib->handle);
	lib->handle = NULL;
}
