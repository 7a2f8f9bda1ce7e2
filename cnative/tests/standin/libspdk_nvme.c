/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libspdk_nvme.c - a stand-in for SPDK's libraries, written by us, for our own logic only: a namespace in memory whose commands end
 * when process_completions is called. It is no substitute for the real ones.
 *
 * Environment:
 *	STANDIN_SPDK_MIB     size of the namespace in MiB, 16 by default; its content outlives a connection
 *	STANDIN_SPDK_SECTOR  bytes of a sector, 512 by default
 *	STANDIN_SPDK_MDTS    bytes of the largest transfer, 131072 by default; larger ones are refused
 *	STANDIN_SPDK_ROOM    commands that a queue pair holds before it says -ENOMEM, 512 by default
 *	STANDIN_SPDK_FAULT   init, post, parse, connect, inactive, metadata, qpair, memory:N (the N-th allocation and all after it),
 *			     read:CODE, write:CODE, flush:CODE (status code type << 8 | code of each), wrong (a byte of each read is
 *			     wrong), lost (process_completions fails), refuse (commands are refused with -EINVAL), never (no
 *			     command ends)
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_ROOM 4096

typedef void done_fn(void *arg, const unsigned char *completion);

enum op { READ, WRITE, FLUSH };

struct command {
	enum op op;
	void *buf;
	uint64_t lba;
	uint32_t blocks;
	done_fn *done;
	void *arg;
};

struct qpair {
	unsigned head, count, room;
	struct command commands[MAX_ROOM];
};

static unsigned char data[4096];
static unsigned char *store;
static uint64_t store_bytes;
static atomic_uint allocations, admin_calls, live_qpairs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/* The fault of that name, and its number. */
static bool fault(const char *name, unsigned *value)
{
	const char *text = getenv("STANDIN_SPDK_FAULT");
	size_t length = strlen(name);

	if (!text || strncmp(text, name, length) || (text[length] && text[length] != ':'))
		return false;
	if (value)
		*value = text[length] ? (unsigned)strtoul(text + length + 1, NULL, 0) : 0;
	return true;
}

static uint32_t sector(void)
{
	return (uint32_t)number("STANDIN_SPDK_SECTOR", 512);
}

EXPORT unsigned standin_spdk_admin_calls(void)
{
	return atomic_load(&admin_calls);
}

EXPORT unsigned standin_spdk_live_qpairs(void)
{
	return atomic_load(&live_qpairs);
}

EXPORT int rte_eal_init(int argc, char **argv)
{

	for (int i = 0; i < argc; i++)
		if (!argv[i])
			return -1;
	atomic_store(&allocations, 0);
	return fault("init", NULL) ? -1 : 0;
}

EXPORT int spdk_env_dpdk_post_init(bool legacy)
{
	(void)legacy;
	return fault("post", NULL) ? -1 : 0;
}

EXPORT void spdk_env_fini(void)
{
}

EXPORT int spdk_nvme_transport_id_parse(void *id, const char *text)
{
	if (fault("parse", NULL) || strncmp(text, "trtype:", 7))
		return -EINVAL;
	memcpy(id, text, strlen(text) + 1);
	return 0;
}

EXPORT void *spdk_nvme_connect(const void *id, const void *options, size_t bytes)
{
	(void)options;
	(void)bytes;
	if (fault("connect", NULL) || !memchr(id, ':', 64))
		return NULL;
	memset(data, ' ', sizeof(data));
	memcpy(data + 24, "Stand-in controller", 19);
	memcpy(data + 64, "0.1", 3);
	pthread_mutex_lock(&lock);
	if (!store) {
		store_bytes = number("STANDIN_SPDK_MIB", 16) << 20;
		store = calloc(1, store_bytes);
	}
	pthread_mutex_unlock(&lock);
	return data;
}

EXPORT int spdk_nvme_detach(void *controller)
{
	(void)controller;
	return 0;
}

EXPORT const unsigned char *spdk_nvme_ctrlr_get_data(void *controller)
{
	return controller;
}

EXPORT int32_t spdk_nvme_ctrlr_process_admin_completions(void *controller)
{
	(void)controller;
	atomic_fetch_add(&admin_calls, 1);
	return 0;
}

EXPORT void *spdk_nvme_ctrlr_get_ns(void *controller, uint32_t nsid)
{
	(void)controller;
	return nsid <= 2 ? &store : NULL;
}

EXPORT bool spdk_nvme_ns_is_active(void *ns)
{
	(void)ns;
	return !fault("inactive", NULL);
}

EXPORT uint32_t spdk_nvme_ns_get_sector_size(void *ns)
{
	(void)ns;
	return sector();
}

EXPORT uint64_t spdk_nvme_ns_get_num_sectors(void *ns)
{
	(void)ns;
	return store_bytes / sector();
}

EXPORT uint32_t spdk_nvme_ns_get_md_size(void *ns)
{
	(void)ns;
	return fault("metadata", NULL) ? 8 : 0;
}

EXPORT uint32_t spdk_nvme_ns_get_max_io_xfer_size(void *ns)
{
	(void)ns;
	return (uint32_t)number("STANDIN_SPDK_MDTS", 131072);
}

EXPORT void *spdk_nvme_ctrlr_alloc_io_qpair(void *controller, const void *options, size_t bytes)
{
	struct qpair *q;

	(void)controller;
	(void)options;
	(void)bytes;
	if (fault("qpair", NULL))
		return NULL;
	q = calloc(1, sizeof(*q));
	if (q) {
		q->room = (unsigned)number("STANDIN_SPDK_ROOM", 512);
		atomic_fetch_add(&live_qpairs, 1);
	}
	return q;
}

static void complete(const struct command *c, unsigned status)
{
	unsigned char entry[16] = {0};
	unsigned word = status << 1 | 1u; /* the phase bit means nothing */

	entry[14] = (unsigned char)word;
	entry[15] = (unsigned char)(word >> 8);
	c->done(c->arg, entry);
}

EXPORT int spdk_nvme_ctrlr_free_io_qpair(void *qpair)
{
	struct qpair *q = qpair;

	while (q->count) {
		struct command c = q->commands[q->head];

		q->head = (q->head + 1) % MAX_ROOM;
		q->count--;
		complete(&c, 0x08); /* aborted: submission queue deleted */
	}
	free(q);
	atomic_fetch_sub(&live_qpairs, 1);
	return 0;
}

static int queue(struct qpair *q, struct command command)
{
	if (fault("refuse", NULL))
		return -EINVAL;
	if (command.op != FLUSH && (uint64_t)command.blocks * sector() > number("STANDIN_SPDK_MDTS", 131072))
		return -EINVAL;
	if (q->count >= q->room)
		return -ENOMEM;
	q->commands[(q->head + q->count++) % MAX_ROOM] = command;
	return 0;
}

EXPORT int spdk_nvme_ns_cmd_read(void *ns, void *qpair, void *buf, uint64_t lba, uint32_t blocks, done_fn *done, void *arg,
				 uint32_t flags)
{
	(void)ns;
	(void)flags;
	return queue(qpair, (struct command){READ, buf, lba, blocks, done, arg});
}

EXPORT int spdk_nvme_ns_cmd_write(void *ns, void *qpair, void *buf, uint64_t lba, uint32_t blocks, done_fn *done, void *arg,
				  uint32_t flags)
{
	(void)ns;
	(void)flags;
	return queue(qpair, (struct command){WRITE, buf, lba, blocks, done, arg});
}

EXPORT int spdk_nvme_ns_cmd_flush(void *ns, void *qpair, done_fn *done, void *arg)
{
	(void)ns;
	return queue(qpair, (struct command){FLUSH, NULL, 0, 0, done, arg});
}

static unsigned perform(const struct command *c)
{
	static const char *const names[] = {"read", "write", "flush"};
	uint64_t at = c->lba * sector(), bytes = (uint64_t)c->blocks * sector();
	unsigned status;

	if (fault(names[c->op], &status))
		return status;
	if (at + bytes > store_bytes)
		return 0x80;
	pthread_mutex_lock(&lock);
	if (c->op == READ)
		memcpy(c->buf, store + at, bytes);
	if (c->op == WRITE)
		memcpy(store + at, c->buf, bytes);
	pthread_mutex_unlock(&lock);
	if (c->op == READ && fault("wrong", NULL))
		((unsigned char *)c->buf)[bytes / 2] ^= 1;
	return 0;
}

EXPORT int32_t spdk_nvme_qpair_process_completions(void *qpair, uint32_t most)
{
	struct qpair *q = qpair;
	unsigned n = q->count;

	if (fault("lost", NULL))
		return -ENXIO;
	if (fault("never", NULL))
		return 0;
	if (most && n > most)
		n = most;
	for (unsigned i = 0; i < n; i++) {
		struct command c = q->commands[q->head];

		q->head = (q->head + 1) % MAX_ROOM;
		q->count--;
		complete(&c, perform(&c));
	}
	return (int32_t)n;
}

EXPORT void *spdk_zmalloc(size_t bytes, size_t align, uint64_t *unused, int node, uint32_t flags)
{
	unsigned most;
	size_t whole = (bytes + align - 1) / align * align;
	void *buf;

	(void)unused;
	(void)node;
	(void)flags;
	if (fault("memory", &most) && atomic_fetch_add(&allocations, 1) + 1 >= most)
		return NULL;
	buf = aligned_alloc(align, whole);
	return buf ? memset(buf, 0, whole) : NULL;
}

EXPORT void spdk_free(void *buf)
{
	free(buf);
}
