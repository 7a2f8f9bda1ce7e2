/* SPDX-License-Identifier: Apache-2.0 */
/* spdk.h - SPDK's libraries, opened at run time; prototypes of our own, of what stayed the same from SPDK 22 to 26. */
#ifndef GPUIO_DL_SPDK_H
#define GPUIO_DL_SPDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpuio.h"

#define SPDK_ENV "GPUIO_SPDK_LIBDIR"
#define SPDK_MALLOC_DMA 0x01u
#define SPDK_ANY_NODE (-1)
#define SPDK_ALIGN 4096u

/* The 16 bytes of an NVMe completion queue entry; its status is the 16-bit word at byte 14, the lowest bit being the phase. */
typedef void spdk_done(void *arg, const unsigned char *completion);

struct gpuio_spdk_lib {
	int (*eal_init)(int argc, char **argv);
	int (*post_init)(bool legacy_memory);
	void (*env_fini)(void);         /* may be NULL */
	void (*print_level)(int level); /* may be NULL */
	int (*parse_transport)(void *id, const char *text);
	void *(*connect)(const void *id, const void *options, size_t bytes);
	int (*detach)(void *controller);
	const unsigned char *(*controller_data)(void *controller);
	int32_t (*admin_completions)(void *controller);
	void *(*get_ns)(void *controller, uint32_t nsid);
	bool (*ns_is_active)(void *ns);
	uint32_t (*sector_size)(void *ns);
	uint64_t (*sectors)(void *ns);
	uint32_t (*metadata_size)(void *ns);
	uint32_t (*max_transfer)(void *ns);
	void *(*alloc_qpair)(void *controller, const void *options, size_t bytes);
	int (*free_qpair)(void *qpair);
	int (*read)(void *ns, void *qpair, void *buf, uint64_t lba, uint32_t blocks, spdk_done *done, void *arg, uint32_t flags);
	int (*write)(void *ns, void *qpair, void *buf, uint64_t lba, uint32_t blocks, spdk_done *done, void *arg, uint32_t flags);
	int (*flush)(void *ns, void *qpair, spdk_done *done, void *arg);
	int32_t (*completions)(void *qpair, uint32_t most);
	void *(*zmalloc)(size_t bytes, size_t align, uint64_t *unused, int node, uint32_t flags);
	void (*free)(void *buf);
};

/* Opens the libraries in the folder `library`, else in $GPUIO_SPDK_LIBDIR, else as the system finds them. They stay in the process
 * until it ends. -ELIBACC when one is missing or lacks a function. */
int gpuio_spdk_lib_open(struct gpuio_spdk_lib *lib, const char *library, struct gpuio_why *why);

#endif
