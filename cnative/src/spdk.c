/* SPDX-License-Identifier: Apache-2.0 */
/* spdk.c - one NVMe namespace of this process, attached through SPDK; transfers outside of runs. */
#include "spdk.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "why.h"

#define TRANSPORT_BYTES 65536u /* more than any release's struct spdk_nvme_transport_id */
#define BOUNCE_BYTES (1u << 20)
#define DEADLINE_NS UINT64_C(30000000000)
#define KEEPER_S 2 /* SPDK's default keep-alive time-out is 10 s */
#define MAX_ARGS 16
#define LOG_ERROR 0

/* NVM Express base specification, Identify Controller. */
#define MODEL_PLACE 24u
#define FIRMWARE_PLACE 64u

/* NVM Express base specification, completion queue entry: phase (bit 0), status code (8 bits), status code type (3 bits). */
int gpuio_spdk_status(const unsigned char *completion)
{
	unsigned status = (unsigned)completion[14] | (unsigned)completion[15] << 8;
	unsigned code = status >> 1 & 0xffu, type = status >> 9 & 0x7u;

	if ((status & 0xfffeu) == 0)
		return 0;
	if (type == 0 && code == 0x80) /* LBA out of range */
		return -ENXIO;
	if (type == 0 && code == 0x81) /* capacity exceeded */
		return -ENOSPC;
	if (type == 1 && code == 0x82) /* attempted write to read-only range */
		return -EROFS;
	return -EIO;
}

static void end(void *arg, const unsigned char *completion)
{
	struct gpuio_spdk *spdk = arg;

	spdk->result = gpuio_spdk_status(completion);
	spdk->over = true;
}

static int await(struct gpuio_spdk *spdk)
{
	uint64_t until = mono_ns() + DEADLINE_NS;
	int rc = 0;

	while (!spdk->over && rc == 0) {
		if (spdk->lib.completions(spdk->qpair, 0) < 0)
			rc = -ENODEV;
		else if (mono_ns() > until)
			rc = -ETIMEDOUT;
	}
	/* What was given up may still end, into the bounce buffer: nothing else may be in it then. */
	spdk->broken = rc != 0;
	return rc ? rc : spdk->result;
}

/* At most the bounce buffer. */
static int one_piece(struct gpuio_spdk *spdk, int op, unsigned char *buf, uint32_t bytes, uint64_t offset)
{
	uint32_t sector = spdk->info.sector;
	int rc;

	if (spdk->broken)
		return -ENODEV;
	spdk->over = false;
	if (op == GPUIO_WRITE)
		memcpy(spdk->bounce, buf, bytes);
	if (op == GPUIO_FSYNC)
		rc = spdk->lib.flush(spdk->ns, spdk->qpair, end, spdk);
	else
		rc = (op == GPUIO_READ ? spdk->lib.read : spdk->lib.write)(spdk->ns, spdk->qpair, spdk->bounce, offset / sector,
									   bytes / sector, end, spdk, 0);
	if (rc == 0)
		rc = await(spdk);
	if (rc == 0 && op == GPUIO_READ)
		memcpy(buf, spdk->bounce, bytes);
	return rc;
}

int gpuio_spdk_transfer(struct gpuio_spdk *spdk, int op, void *buf, uint64_t bytes, uint64_t offset, struct gpuio_why *why)
{
	uint64_t done = 0;
	int rc = 0;

	gpuio_say(why, "%s", "");
	if (bytes % spdk->info.sector || offset % spdk->info.sector || offset > spdk->info.bytes ||
	    bytes > spdk->info.bytes - offset) {
		gpuio_say(why, "%" PRIu64 " bytes at offset %" PRIu64 " are not whole sectors of %" PRIu32 " bytes in a namespace of %"
			  PRIu64, bytes, offset, spdk->info.sector, spdk->info.bytes);
		return -EINVAL;
	}
	pthread_mutex_lock(&spdk->lock);
	if (op == GPUIO_FSYNC)
		rc = one_piece(spdk, op, NULL, 0, 0);
	while (op != GPUIO_FSYNC && rc == 0 && done < bytes) {
		uint64_t left = bytes - done;
		uint32_t piece = left < spdk->bounce_bytes ? (uint32_t)left : spdk->bounce_bytes;

		rc = one_piece(spdk, op, (unsigned char *)buf + done, piece, offset + done);
		if (rc == 0)
			done += piece;
	}
	pthread_mutex_unlock(&spdk->lock);
	if (rc)
		gpuio_say(why, "SPDK cannot %s at offset %" PRIu64 ": %s", op == GPUIO_READ ? "read" : op == GPUIO_WRITE ? "write" :
			  "flush", offset + done, rc == -ENODEV ? "the controller or its connection is lost" : strerror(-rc));
	return rc;
}

static void *keep_alive(void *arg)
{
	struct gpuio_spdk *spdk = arg;
	struct timespec until;

	pthread_mutex_lock(&spdk->keeper_lock);
	while (!spdk->leave) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += KEEPER_S;
		pthread_cond_timedwait(&spdk->keeper_wake, &spdk->keeper_lock, &until);
		if (!spdk->leave)
			spdk->lib.admin_completions(spdk->controller); /* it locks the controller itself */
	}
	pthread_mutex_unlock(&spdk->keeper_lock);
	return NULL;
}

static int start_keeper(struct gpuio_spdk *spdk)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&spdk->keeper_wake, &attr);
	pthread_condattr_destroy(&attr);
	spdk->has_keeper = pthread_create(&spdk->keeper, NULL, keep_alive, spdk) == 0;
	return spdk->has_keeper ? 0 : -EAGAIN;
}

static void text_of(char *to, const unsigned char *from, size_t bytes)
{
	while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\0'))
		bytes--;
	memcpy(to, from, bytes);
	to[bytes] = '\0';
}

/* DPDK pins the thread that starts it; that is undone. */
static int start_environment(struct gpuio_spdk *spdk, const struct gpuio_spdk_options *options, struct gpuio_why *why)
{
	char name[] = "gpuio", no_files[] = "--no-shconf", unlinked[] = "--huge-unlink", quiet[] = "--no-telemetry";
	char errors[] = "--log-level=error", no_pci[] = "--no-pci", no_huge[] = "--no-huge", legacy[] = "--legacy-mem";
	char virtual[] = "--iova-mode=va", size[] = "-m";
	char lcores[32], prefix[64], memory[16], allow[40];
	char *args[MAX_ARGS];
	cpu_set_t allowed;
	int n = 0, cpu = 0, rc;

	CPU_ZERO(&allowed);
	pthread_getaffinity_np(pthread_self(), sizeof(allowed), &allowed);
	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed))
		cpu++;
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", cpu);
	snprintf(prefix, sizeof(prefix), "--file-prefix=gpuio%d", (int)getpid());
	snprintf(memory, sizeof(memory), "%" PRIu32, options->memory_mib);
	snprintf(allow, sizeof(allow), "--allow=%s", options->pci ? options->pci : "");
	args[n++] = name;
	args[n++] = lcores;
	args[n++] = prefix;
	args[n++] = no_files; /* leaves nothing behind in /run */
	args[n++] = quiet;
	args[n++] = errors;
	args[n++] = options->pci ? allow : no_pci;
	if (options->memory_mib) {
		args[n++] = no_huge;
		args[n++] = legacy;
		args[n++] = virtual;
		args[n++] = size;
		args[n++] = memory;
	} else {
		args[n++] = unlinked; /* nor in hugetlbfs */
	}
	args[n] = NULL;
	if (spdk->lib.print_level)
		spdk->lib.print_level(LOG_ERROR);
	rc = spdk->lib.eal_init(n, args);
	pthread_setaffinity_np(pthread_self(), sizeof(allowed), &allowed);
	if (rc >= 0 && spdk->lib.post_init(options->memory_mib != 0) >= 0)
		return 0;
	if (options->memory_mib)
		gpuio_say(why, "SPDK cannot start with %" PRIu32 " MiB of memory and no huge pages: what it printed says why; only one "
			  "start per process is possible", options->memory_mib);
	else
		gpuio_say(why, "SPDK cannot start with huge pages: reserve some (sysctl -w vm.nr_hugepages=256), run as root; only one "
			  "start per process is possible");
	return -ENOMEM;
}

static int attach(struct gpuio_spdk *spdk, const struct gpuio_spdk_options *options, struct gpuio_why *why)
{
	void *id = calloc(1, TRANSPORT_BYTES);
	int rc;

	if (!id)
		return -ENOMEM;
	rc = spdk->lib.parse_transport(id, options->transport);
	if (rc)
		gpuio_say(why, "SPDK does not understand the address '%s'", options->transport);
	else
		spdk->controller = spdk->lib.connect(id, NULL, 0);
	free(id);
	if (rc)
		return -EINVAL;
	if (spdk->controller)
		return 0;
	if (options->pci)
		gpuio_say(why, "SPDK cannot attach %s: bind it to vfio-pci (with an IOMMU) or uio_pci_generic, run as root, and end what "
			  "else holds it", options->pci);
	else
		gpuio_say(why, "SPDK cannot connect to '%s': is a target listening there, does it have this subsystem, and does it "
			  "allow this host?", options->transport);
	return -ENODEV;
}

static int describe(struct gpuio_spdk *spdk, uint32_t nsid, struct gpuio_why *why)
{
	struct gpuio_spdk_lib *lib = &spdk->lib;
	const unsigned char *data = lib->controller_data(spdk->controller);

	text_of(spdk->info.model, data + MODEL_PLACE, sizeof(spdk->info.model) - 1);
	text_of(spdk->info.firmware, data + FIRMWARE_PLACE, sizeof(spdk->info.firmware) - 1);
	spdk->ns = lib->get_ns(spdk->controller, nsid);
	if (!spdk->ns || !lib->ns_is_active(spdk->ns)) {
		gpuio_say(why, "the controller (%s) has no active namespace %" PRIu32 ": name another one with :nsN", spdk->info.model,
			  nsid);
		return -ENOENT;
	}
	spdk->info.sector = lib->sector_size(spdk->ns);
	spdk->info.max_transfer = lib->max_transfer(spdk->ns);
	if (spdk->info.sector < GPUIO_SECTOR || spdk->info.sector & (spdk->info.sector - 1)) {
		gpuio_say(why, "namespace %" PRIu32 " has sectors of %" PRIu32 " bytes: a power of two from 512 on is needed", nsid,
			  spdk->info.sector);
		return -ENOTSUP;
	}
	if (lib->metadata_size(spdk->ns)) {
		gpuio_say(why, "namespace %" PRIu32 " is formatted with %" PRIu32 " bytes of metadata per block, for which there are no "
			  "buffers here: use a format without metadata", nsid, lib->metadata_size(spdk->ns));
		return -ENOTSUP;
	}
	spdk->info.max_transfer -= spdk->info.max_transfer % spdk->info.sector;
	if (spdk->info.max_transfer == 0) {
		gpuio_say(why, "namespace %" PRIu32 " takes no transfers at all (MDTS)", nsid);
		return -ENOTSUP;
	}
	spdk->info.bytes = lib->sectors(spdk->ns) * spdk->info.sector;
	return 0;
}

static int prepare_transfers(struct gpuio_spdk *spdk, struct gpuio_why *why)
{
	spdk->bounce_bytes = spdk->info.max_transfer < BOUNCE_BYTES ? spdk->info.max_transfer : BOUNCE_BYTES;
	spdk->bounce = spdk->lib.zmalloc(spdk->bounce_bytes, SPDK_ALIGN, NULL, SPDK_ANY_NODE, SPDK_MALLOC_DMA);
	spdk->qpair = spdk->bounce ? spdk->lib.alloc_qpair(spdk->controller, NULL, 0) : NULL;
	if (spdk->qpair)
		return 0;
	gpuio_say(why, "SPDK has no %s: reserve more huge pages (vm.nr_hugepages)", spdk->bounce ? "queue pair left" : "memory left");
	return -ENOMEM;
}

int gpuio_spdk_open(const struct gpuio_spdk_options *options, struct gpuio_spdk **out, struct gpuio_why *why)
{
	struct gpuio_spdk *spdk = calloc(1, sizeof(*spdk));
	int rc;

	*out = NULL;
	gpuio_say(why, "%s", "");
	if (!spdk)
		return -ENOMEM;
	pthread_mutex_init(&spdk->lock, NULL);
	pthread_mutex_init(&spdk->keeper_lock, NULL);
	rc = gpuio_spdk_lib_open(&spdk->lib, options->library, why);
	if (rc == 0)
		rc = start_environment(spdk, options, why);
	if (rc == 0)
		rc = attach(spdk, options, why);
	if (rc == 0)
		rc = describe(spdk, options->nsid, why);
	if (rc == 0)
		rc = prepare_transfers(spdk, why);
	if (rc == 0)
		rc = start_keeper(spdk);
	if (rc) {
		gpuio_spdk_close(spdk);
		return rc;
	}
	*out = spdk;
	return 0;
}

void gpuio_spdk_describe(const struct gpuio_spdk *spdk, struct gpuio_spdk_info *info)
{
	*info = spdk->info;
}

void gpuio_spdk_close(struct gpuio_spdk *spdk)
{
	if (!spdk)
		return;
	if (spdk->has_keeper) {
		pthread_mutex_lock(&spdk->keeper_lock);
		spdk->leave = 1;
		pthread_cond_signal(&spdk->keeper_wake);
		pthread_mutex_unlock(&spdk->keeper_lock);
		pthread_join(spdk->keeper, NULL);
		pthread_cond_destroy(&spdk->keeper_wake);
	}
	if (spdk->qpair)
		spdk->lib.free_qpair(spdk->qpair);
	if (spdk->bounce)
		spdk->lib.free(spdk->bounce);
	if (spdk->controller)
		spdk->lib.detach(spdk->controller);
	if (spdk->controller && spdk->lib.env_fini)
		spdk->lib.env_fini();
	pthread_mutex_destroy(&spdk->keeper_lock);
	pthread_mutex_destroy(&spdk->lock);
	free(spdk);
}
