/* SPDX-License-Identifier: Apache-2.0 */
/* cufile.c - cuFile's driver: opened once per process, asked what it is and what it counted, closed before the process ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dl/cufile.h"
#include "why.h"

#define STATS_LEVEL 3          /* per GPU; costs 5 % at 4 KiB and 64 KiB, nothing at 1 MiB */
#define SPINS_SINCE 1160       /* releases that never come back from DriverOpen on a kernel without /proc/modules, */
#define SPINS_UNTIL 1200       /* as far as they were tried */

struct gpuio_cufile {
	struct gpuio_cufile_lib lib;
	struct gpuio_cufile_info info;
};

static int has_proc_modules(void)
{
	FILE *f = fopen("/proc/modules", "re");

	if (f)
		fclose(f);
	return f != NULL;
}

static void read_properties(struct gpuio_cufile *cufile)
{
	struct gpuio_cufile_info *info = &cufile->info;
	struct {
		struct cufile_properties known;
		unsigned char room[512]; /* for what a newer library may add */
	} p;

	memset(&p, 0, sizeof(p));
	info->properties_error = cufile->lib.properties(&p.known).code;
	if (info->properties_error)
		return;
	info->nvfs_major = p.known.nvfs_major;
	info->nvfs_minor = p.known.nvfs_minor;
	info->poll_threshold_bytes = (uint64_t)p.known.poll_threshold_kb << 10;
	info->max_direct_bytes = (uint64_t)p.known.max_direct_kb << 10;
	info->max_cache_bytes = (uint64_t)p.known.max_cache_kb << 10;
	info->per_buffer_cache_bytes = (uint64_t)p.known.per_buffer_cache_kb << 10;
	info->max_pinned_bytes = (uint64_t)p.known.max_pinned_kb << 10;
	info->status_flags = p.known.status_flags;
	info->control_flags = p.known.control_flags;
	info->feature_flags = p.known.feature_flags;
	info->max_batch = p.known.max_batch;
}

static int open_driver(struct gpuio_cufile *cufile, struct gpuio_why *why)
{
	struct gpuio_cufile_lib *lib = &cufile->lib;
	struct cufile_error error;
	int version = 0;

	if (lib->version && lib->version(&version).code == 0)
		cufile->info.version = version;
	if (version >= SPINS_SINCE && version <= SPINS_UNTIL && !has_proc_modules()) {
		gpuio_say(why, "libcufile %d.%d never comes back from cuFileDriverOpen on a kernel without /proc/modules (no "
			  "CONFIG_MODULES): use libcufile 1.15, or a kernel with modules", version / 1000, version % 1000 / 10);
		return -ENOTSUP;
	}
	error = lib->driver_open();
	if (error.code) {
		gpuio_say(why, "cuFileDriverOpen was refused (cuFile code %d, CUDA code %d)", error.code, error.cuda);
		return -error.code;
	}
	if (lib->set_stats_level && lib->stats_start && lib->stats_l1 && lib->stats_l3)
		cufile->info.counts = lib->set_stats_level(STATS_LEVEL).code == 0 && lib->stats_start().code == 0;
	read_properties(cufile);
	return 0;
}

int gpuio_cufile_open(const char *library, struct gpuio_cufile **out, struct gpuio_why *why)
{
	struct gpuio_cufile *cufile = calloc(1, sizeof(*cufile));
	int rc;

	gpuio_say(why, "%s", "");
	*out = NULL;
	if (!cufile)
		return -ENOMEM;
	rc = gpuio_cufile_lib_open(&cufile->lib, library, why);
	if (rc == 0)
		rc = open_driver(cufile, why);
	if (rc) {
		gpuio_cufile_lib_close(&cufile->lib);
		free(cufile);
		return rc;
	}
	*out = cufile;
	return 0;
}

void gpuio_cufile_describe(const struct gpuio_cufile *cufile, struct gpuio_cufile_info *info)
{
	*info = cufile->info;
}

int gpuio_cufile_counters(const struct gpuio_cufile *cufile, unsigned level, uint64_t *words, struct gpuio_why *why)
{
	struct cufile_error error;

	gpuio_say(why, "%s", "");
	/* Zeroed and far larger than any layout: which release wrote what is for the reader to tell. */
	memset(words, 0, GPUIO_CUFILE_WORDS * sizeof(*words));
	if (!cufile->info.counts) {
		gpuio_say(why, "this libcufile has no counters, or refuses to switch them on: use libcufile 1.15 or newer");
		return -ENODATA;
	}
	if (level != 1 && level != 3) {
		gpuio_say(why, "counters of level %u are not read here: use 1 or 3", level);
		return -EINVAL;
	}
	error = level == 1 ? cufile->lib.stats_l1(words) : cufile->lib.stats_l3(words);
	if (error.code)
		gpuio_say(why, "cuFile's counters of level %u cannot be read (cuFile code %d)", level, error.code);
	return -error.code;
}

int gpuio_cufile_accepts(const struct gpuio_cufile *cufile, int fd, struct gpuio_why *why)
{
	struct cufile_descriptor descriptor = {.type = CUFILE_HANDLE_TYPE_FD, .handle.fd = fd};
	struct cufile_error error;
	void *file = NULL;

	gpuio_say(why, "%s", "");
	error = cufile->lib.handle_register(&file, &descriptor);
	if (error.code) {
		gpuio_say(why, "cuFileHandleRegister refused the file (cuFile code %d)", error.code);
		return -error.code;
	}
	cufile->lib.handle_deregister(file);
	return 0;
}

int gpuio_cufile_close(struct gpuio_cufile *cufile)
{
	struct cufile_error error;

	if (!cufile)
		return 0;
	error = cufile->lib.driver_close();
	gpuio_cufile_lib_close(&cufile->lib);
	free(cufile);
	return -error.code;
}
