/* SPDX-License-Identifier: Apache-2.0 */
#include "dl/spdk.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "why.h"

#define MAX_PATH 4096

/* What SPDK's libraries use without naming it, DPDK's parts that register themselves, then SPDK's own. */
static const struct {
	const char *name;
	bool required;
} libraries[] = {
	{"libcrypto.so.3", false},	 {"libssl.so.3", false},	{"libuuid.so.1", false},
	{"libisal.so.2", false},	 {"libnuma.so.1", false},	{"libm.so.6", false},
	{"librte_log.so", false},	 {"librte_kvargs.so", false},	{"librte_argparse.so", false},
	{"librte_telemetry.so", false},	 {"librte_eal.so", false},	{"librte_ring.so", false},
	{"librte_mempool.so", false},	 {"librte_mempool_ring.so", false}, {"librte_pci.so", false},
	{"librte_bus_pci.so", false},	 {"librte_power.so", false},	{"libspdk_env_dpdk.so", true},
	{"libspdk_nvme.so", true},	 {"libspdk_sock_posix.so", false},
};

static const struct {
	const char *symbol;
	size_t place;
	bool required;
} functions[] = {
	{"rte_eal_init", offsetof(struct gpuio_spdk_lib, eal_init), true},
	{"spdk_env_dpdk_post_init", offsetof(struct gpuio_spdk_lib, post_init), true},
	{"spdk_env_fini", offsetof(struct gpuio_spdk_lib, env_fini), false},
	{"spdk_log_set_print_level", offsetof(struct gpuio_spdk_lib, print_level), false},
	{"spdk_nvme_transport_id_parse", offsetof(struct gpuio_spdk_lib, parse_transport), true},
	{"spdk_nvme_connect", offsetof(struct gpuio_spdk_lib, connect), true},
	{"spdk_nvme_detach", offsetof(struct gpuio_spdk_lib, detach), true},
	{"spdk_nvme_ctrlr_get_data", offsetof(struct gpuio_spdk_lib, controller_data), true},
	{"spdk_nvme_ctrlr_process_admin_completions", offsetof(struct gpuio_spdk_lib, admin_completions), true},
	{"spdk_nvme_ctrlr_get_ns", offsetof(struct gpuio_spdk_lib, get_ns), true},
	{"spdk_nvme_ns_is_active", offsetof(struct gpuio_spdk_lib, ns_is_active), true},
	{"spdk_nvme_ns_get_sector_size", offsetof(struct gpuio_spdk_lib, sector_size), true},
	{"spdk_nvme_ns_get_num_sectors", offsetof(struct gpuio_spdk_lib, sectors), true},
	{"spdk_nvme_ns_get_md_size", offsetof(struct gpuio_spdk_lib, metadata_size), true},
	{"spdk_nvme_ns_get_max_io_xfer_size", offsetof(struct gpuio_spdk_lib, max_transfer), true},
	{"spdk_nvme_ctrlr_alloc_io_qpair", offsetof(struct gpuio_spdk_lib, alloc_qpair), true},
	{"spdk_nvme_ctrlr_free_io_qpair", offsetof(struct gpuio_spdk_lib, free_qpair), true},
	{"spdk_nvme_ns_cmd_read", offsetof(struct gpuio_spdk_lib, read), true},
	{"spdk_nvme_ns_cmd_write", offsetof(struct gpuio_spdk_lib, write), true},
	{"spdk_nvme_ns_cmd_flush", offsetof(struct gpuio_spdk_lib, flush), true},
	{"spdk_nvme_qpair_process_completions", offsetof(struct gpuio_spdk_lib, completions), true},
	{"spdk_zmalloc", offsetof(struct gpuio_spdk_lib, zmalloc), true},
	{"spdk_free", offsetof(struct gpuio_spdk_lib, free), true},
};

/* GLOBAL: they do not name all that they need. NODELETE: their threads and what they do at exit need the code. */
static void *open_one(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
}

static bool in_folder(char *path, const char *folder, const char *name)
{
	int length = snprintf(path, MAX_PATH, "%s/%s", folder, name);

	return length > 0 && length < MAX_PATH && access(path, R_OK) == 0;
}

/* From the folder where it is there. What lies beside it is found through LD_LIBRARY_PATH only, which counts when a process starts:
 * SPDK's libraries need one another in circles, so that none can be opened before the others. */
static void *open_library(const char *folder, const char *name)
{
	char path[MAX_PATH];

	return open_one(folder && in_folder(path, folder, name) ? path : name);
}

/* SPDK's own libraries and what they need come first: another copy may be in the process, too. */
static void *find(void *const *handles, size_t n, const char *symbol)
{
	for (size_t i = 0; i < n; i++) {
		void *address = dlsym(handles[i], symbol);

		if (address)
			return address;
	}
	return dlsym(RTLD_DEFAULT, symbol);
}

static int find_functions(struct gpuio_spdk_lib *lib, void *const *handles, size_t n, struct gpuio_why *why)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *address = find(handles, n, functions[i].symbol);

		if (!address && functions[i].required) {
			gpuio_say(why, "the SPDK libraries lack %s: use SPDK 22 or newer, built with --with-shared",
				  functions[i].symbol);
			return -ELIBACC;
		}
		memcpy((char *)lib + functions[i].place, &address, sizeof(address));
	}
	return 0;
}

int gpuio_spdk_lib_open(struct gpuio_spdk_lib *lib, const char *library, struct gpuio_why *why)
{
	const char *named = library ? library : getenv(SPDK_ENV);
	const char *folder = named && named[0] ? named : NULL;
	void *handles[sizeof(libraries) / sizeof(libraries[0])];
	size_t n = 0;

	memset(lib, 0, sizeof(*lib));
	if (folder && access(folder, X_OK) != 0) {
		gpuio_say(why, "SPDK's folder %s cannot be entered (%s): name the one with libspdk_nvme.so in " SPDK_ENV, folder,
			  strerror(errno));
		return -ELIBACC;
	}
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *handle = open_library(folder, libraries[i].name);
		const char *said;

		if (handle && libraries[i].required)
			handles[n++] = handle;
		if (handle || !libraries[i].required)
			continue;
		said = dlerror();
		gpuio_say(why, "SPDK is not installed: %s. Build it --with-shared and set " SPDK_ENV "=/path/to/lib",
			  said ? said : libraries[i].name);
		return -ELIBACC;
	}
	return find_functions(lib, handles, n, why);
}
