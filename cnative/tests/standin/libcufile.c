/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcufile.c - a stand-in for NVIDIA's libcufile, written by us, for our own logic only: it moves bytes with pread and pwrite
 * (memory that the CPU reaches) and counts them as whatever route it is told to play. No machine here has direct storage.
 *
 * Environment:
 *	STANDIN_CUFILE	 route: nvfs, p2p, compat (default), mixed (every other one falls back), unaligned, none (counts nothing)
 *	STANDIN_VERSION  as cuFileGetVersion tells it; 1200 by default. The counters' layout follows it
 *	STANDIN_FAULT	 hang (DriverOpen never returns), crash_at_exit, crash_at_close, open:CODE, register:CODE, buffer:CODE, batch:CODE,
 *			 read:CODE, short (half of each read), wrong (a byte of each read is wrong)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_BATCH 128u
#define TAG (UINT64_C(1) << 62) /* on addresses of the GPU memory that libcuda's stand-in gives out */

struct error {
	int32_t code, cuda;
};

struct descriptor {
	int32_t type;
	union {
		int fd;
		void *handle;
	} handle;
	const void *fs_ops;
};

struct batch_io {
	int32_t mode;
	struct {
		void *base;
		int64_t file_offset, base_offset;
		size_t size;
	} batch;
	void *file;
	int32_t opcode;
	void *cookie;
};

struct batch_event {
	void *cookie;
	int32_t status;
	size_t moved;
};

struct properties {
	uint32_t nvfs_major, nvfs_minor;
	size_t poll_threshold_kb, max_direct_kb;
	uint32_t status_flags, control_flags;
	uint32_t feature_flags, max_cache_kb, per_buffer_cache_kb, max_pinned_kb, max_batch, max_batch_timeout_ms;
};

struct file {
	int fd;
};

struct batch {
	unsigned size, count, turn;
	struct batch_io waiting[MAX_BATCH];
};

enum { READS, WRITES, OPS };

struct counts {
	uint64_t total, p2p, nvfs, posix, unaligned, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counts single[OPS];
static struct {
	uint64_t nvfs, p2p, aio, total, bytes[OPS];
} batches;
static uint64_t handles;
static long uses;
static bool allows_compat;

static const char *setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	return value ? value : otherwise;
}

static bool plays(const char *route)
{
	return strcmp(setting("STANDIN_CUFILE", "compat"), route) == 0;
}

static bool has_fault(const char *name)
{
	return strcmp(setting("STANDIN_FAULT", ""), name) == 0;
}

/* The code of a fault "stage:CODE", or 0. */
static int32_t fault(const char *stage)
{
	const char *value = setting("STANDIN_FAULT", "");
	size_t n = strlen(stage);

	return strncmp(value, stage, n) == 0 && value[n] == ':' ? atoi(value + n + 1) : 0;
}

static int version(void)
{
	return atoi(setting("STANDIN_VERSION", "1200"));
}

static struct error answer(int32_t code)
{
	return (struct error){code, 0};
}

/* What the library reads of its settings here: may it fall back? */
static bool read_allows_compat(void)
{
	const char *path = getenv("CUFILE_ENV_PATH_JSON");
	FILE *f = path ? fopen(path, "re") : NULL;
	char text[65536] = "";
	const char *at;

	if (!f)
		return true;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	at = strstr(text, "\"allow_compat_mode\"");
	at = at ? strchr(at, ':') : NULL;
	return !at || strncmp(at + 1 + strspn(at + 1, " \t\n"), "false", 5) != 0;
}

static void crash_at_exit(void)
{
	raise(SIGSEGV);
}

EXPORT struct error cuFileDriverOpen(void)
{
	int32_t code = fault("open");

	while (has_fault("hang"))
		sleep(1);
	if (code)
		return answer(code);
	allows_compat = read_allows_compat();
	if (!allows_compat && plays("compat"))
		return answer(5001);
	if (has_fault("crash_at_exit"))
		atexit(crash_at_exit);
	uses++;
	return answer(0);
}

EXPORT struct error cuFileDriverClose_v2(void)
{
	if (has_fault("crash_at_close"))
		raise(SIGSEGV);
	uses--;
	return answer(0);
}

EXPORT struct error cuFileDriverClose(void)
{
	return cuFileDriverClose_v2();
}

EXPORT long cuFileUseCount(void)
{
	return uses;
}

EXPORT struct error cuFileGetVersion(int *out)
{
	*out = version();
	return answer(0);
}

EXPORT struct error cuFileDriverGetProperties(struct properties *p)
{
	*p = (struct properties){
		.nvfs_major = plays("nvfs") || plays("mixed") ? 2 : 0,
		.nvfs_minor = plays("nvfs") || plays("mixed") ? 26 : 0,
		.poll_threshold_kb = 4,
		.max_direct_kb = 16384,
		.status_flags = plays("nvfs") ? 1u << 4 : 0,
		.control_flags = allows_compat ? 2 : 0,
		.feature_flags = 15,
		.max_cache_kb = 131072,
		.per_buffer_cache_kb = 1024,
		.max_pinned_kb = 33554432,
		.max_batch = MAX_BATCH,
		.max_batch_timeout_ms = 5,
	};
	return answer(0);
}

EXPORT struct error cuFileHandleRegister(void **out, struct descriptor *descriptor)
{
	/* As the real one does on an H200 machine. */
	bool odd = fcntl(descriptor->handle.fd, F_GETFL) & (O_NOFOLLOW | O_NOATIME | (O_TMPFILE & ~O_DIRECTORY));
	int32_t code = odd ? 5019 : fault("register");
	struct file *file = code ? NULL : malloc(sizeof(*file));

	if (!file)
		return answer(code ? code : 5043);
	file->fd = descriptor->handle.fd;
	*out = file;
	pthread_mutex_lock(&lock);
	handles++;
	pthread_mutex_unlock(&lock);
	return answer(0);
}

EXPORT void cuFileHandleDeregister(void *file)
{
	free(file);
}

EXPORT struct error cuFileBufRegister(const void *base, size_t bytes, int flags)
{
	(void)base;
	(void)bytes;
	(void)flags;
	return answer(fault("buffer"));
}

EXPORT struct error cuFileBufDeregister(const void *base)
{
	(void)base;
	return answer(0);
}

static void count(int op, uint64_t bytes)
{
	struct counts *c = &single[op];

	pthread_mutex_lock(&lock);
	if (!plays("none")) {
		c->total++;
		c->bytes += bytes;
		if (plays("p2p"))
			c->p2p++;
		else if (plays("nvfs") || plays("unaligned") || (plays("mixed") && c->total % 2))
			c->nvfs++;
		else
			c->posix++;
		c->unaligned += plays("unaligned");
	}
	pthread_mutex_unlock(&lock);
}

static ssize_t move(int op, int fd, void *address, size_t size, int64_t at)
{
	void *to = (void *)((uintptr_t)address & ~(uintptr_t)TAG);
	int32_t code = op == READS ? fault("read") : 0;
	ssize_t moved;

	if (code)
		return -code;
	if (op == READS && has_fault("short"))
		size /= 2;
	moved = op == READS ? pread(fd, to, size, at) : pwrite(fd, to, size, at);
	if (moved > 0 && op == READS && has_fault("wrong"))
		((unsigned char *)to)[moved / 2] ^= 1;
	return moved;
}

EXPORT ssize_t cuFileRead(void *file, void *base, size_t size, off_t at, off_t behind)
{
	ssize_t moved = move(READS, ((struct file *)file)->fd, (char *)base + behind, size, at);

	if (moved > 0)
		count(READS, (uint64_t)moved);
	return moved;
}

EXPORT ssize_t cuFileWrite(void *file, const void *base, size_t size, off_t at, off_t behind)
{
	ssize_t moved = move(WRITES, ((struct file *)file)->fd, (char *)base + behind, size, at);

	if (moved > 0)
		count(WRITES, (uint64_t)moved);
	return moved;
}

EXPORT struct error cuFileReadAsync(void *file, void *base, size_t *size, off_t *at, off_t *behind, ssize_t *moved, void *stream)
{
	(void)stream;
	*moved = cuFileRead(file, base, *size, *at, *behind);
	return answer(0);
}

EXPORT struct error cuFileWriteAsync(void *file, void *base, size_t *size, off_t *at, off_t *behind, ssize_t *moved, void *stream)
{
	(void)stream;
	*moved = cuFileWrite(file, base, *size, *at, *behind);
	return answer(0);
}

EXPORT struct error cuFileStreamRegister(void *stream, unsigned flags)
{
	(void)stream;
	(void)flags;
	return answer(fault("stream"));
}

EXPORT struct error cuFileStreamDeregister(void *stream)
{
	(void)stream;
	return answer(0);
}

EXPORT struct error cuFileBatchIOSetUp(void **out, unsigned n)
{
	struct batch *batch = n <= MAX_BATCH ? calloc(1, sizeof(*batch)) : NULL;

	if (!batch)
		return answer(5022);
	batch->size = n;
	*out = batch;
	return answer(0);
}

EXPORT struct error cuFileBatchIOSubmit(void *handle, unsigned n, struct batch_io *ios, unsigned flags)
{
	struct batch *batch = handle;
	int32_t code = fault("batch");

	(void)flags;
	if (code)
		return answer(code);
	if (batch->count + n > batch->size)
		return answer(5037);
	/* The real one was seen to lose an entry then. */
	if (batch->count)
		return answer(5040);
	memcpy(batch->waiting + batch->count, ios, n * sizeof(*ios));
	batch->count += n;
	pthread_mutex_lock(&lock);
	if (!plays("none")) {
		batches.total += n;
		if (plays("nvfs"))
			batches.nvfs += n;
		else if (plays("p2p"))
			batches.p2p += n;
		else
			batches.aio += n;
	}
	pthread_mutex_unlock(&lock);
	return answer(0);
}

/* Ends at least one of them, in no order that may be relied on: the second oldest and the oldest in turn. */
EXPORT struct error cuFileBatchIOGetStatus(void *handle, unsigned min, unsigned *n, struct batch_event *events, struct timespec *timeout)
{
	struct batch *batch = handle;
	unsigned want = min ? min : 1, got = 0;

	(void)timeout;
	for (; got < want && got < *n && batch->count; got++) {
		unsigned at = batch->count > 1 && batch->turn++ % 2 == 0;
		struct batch_io io = batch->waiting[at];
		ssize_t moved = move(io.opcode, ((struct file *)io.file)->fd, (char *)io.batch.base + io.batch.base_offset,
				     io.batch.size, io.batch.file_offset);

		memmove(&batch->waiting[at], &batch->waiting[at + 1], (--batch->count - at) * sizeof(io));
		events[got] = (struct batch_event){io.cookie, moved < 0 ? 0x40 : 0x10, (size_t)moved};
		pthread_mutex_lock(&lock);
		batches.bytes[io.opcode] += moved > 0 && !plays("none") ? (uint64_t)moved : 0;
		pthread_mutex_unlock(&lock);
	}
	*n = got;
	return answer(0);
}

EXPORT struct error cuFileBatchIOCancel(void *handle)
{
	((struct batch *)handle)->count = 0;
	return answer(0);
}

EXPORT void cuFileBatchIODestroy(void *handle)
{
	free(handle);
}

EXPORT struct error cuFileSetStatsLevel(int level)
{
	return answer(level >= 0 && level <= 3 ? fault("stats") : 5022);
}

EXPORT struct error cuFileStatsStart(void)
{
	return answer(0);
}

EXPORT struct error cuFileGetStatsL1(void *stats)
{
	uint64_t *w = stats;

	pthread_mutex_lock(&lock);
	w[0] = single[READS].total;
	w[2] = single[WRITES].total;
	w[4] = handles;
	w[12] = single[READS].bytes;
	w[13] = single[WRITES].bytes;
	w[40] = batches.nvfs;
	w[42] = batches.p2p;
	w[44] = batches.aio;
	w[50] = batches.total;
	w[52] = batches.bytes[READS];
	w[53] = batches.bytes[WRITES];
	pthread_mutex_unlock(&lock);
	return answer(0);
}

/* One GPU. Its words begin 14 further from 1.19 on, which counts readv and writev, too. */
EXPORT struct error cuFileGetStatsL3(void *stats)
{
	uint64_t *w = (uint64_t *)stats + (version() >= 1190 ? 142 : 128);

	pthread_mutex_lock(&lock);
	w[0] = 1;
	memcpy(&w[1], "STANDIN-GPU-UUID", 16);
	for (int op = READS; op < OPS; op++) {
		uint64_t *g = w + (op == READS ? 3 : 16);

		g[0] = single[op].bytes;
		g[4] = single[op].total;
		g[5] = single[op].p2p;
		g[6] = single[op].nvfs;
		g[7] = single[op].posix;
		g[8] = single[op].unaligned;
	}
	pthread_mutex_unlock(&lock);
	return answer(0);
}
