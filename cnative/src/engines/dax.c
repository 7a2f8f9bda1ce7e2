/* SPDX-License-Identifier: Apache-2.0 */
/* dax.c - persistent memory by loads and stores of a map without page cache: a DAX file system's file, or a devdax device. */
#include <errno.h>
#include <inttypes.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engines/mapped.h"
#include "engines/sigbus.h"
#include "persist.h"
#include "registry.h"
#include "why.h"

#ifndef STATX_ATTR_DAX
#define STATX_ATTR_DAX 0x00200000 /* Linux 5.8 */
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03 /* Linux 4.15 */
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x080000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

struct dax_state {
	struct gpuio_mapped m;
	const struct gpuio_persist *how; /* NULL = a write is durable only after msync */
	bool device;                     /* devdax: no read system call */
};

static int dax_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

static bool says_dax(int fd)
{
	struct statx now;

	/* The system call itself: C libraries before 2.28 have no name for it. */
	return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0, &now) == 0 && now.stx_attributes & STATX_ATTR_DAX;
}

/* A number from the sysfs folder of a character device; 0 = there is none. */
static uint64_t device_fact(dev_t device, const char *name)
{
	uint64_t value = 0;
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/%s", major(device), minor(device), name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%" SCNi64, (int64_t *)&value) != 1)
		value = 0;
	fclose(f);
	return value;
}

static int refuse(struct gpuio_job *job, int err)
{
	if (err == EACCES || err == EPERM || err == ENOMEM)
		return -err; /* the map itself failed: the caller has a sentence for it */
	gpuio_say(&job->why, "the file is not DAX (no STATX_ATTR_DAX, and MAP_SYNC: %s): its pages would come from the page cache, "
		  "which is the data path mmap; use a file system on persistent memory mounted with dax=always", strerror(err));
	return -ENOTSUP;
}

static int map_dax(struct gpuio_job *job, struct dax_state *s)
{
	bool told = s->device || says_dax(job->spec->fd), synchronous;
	int rc = gpuio_mapped_map(job, &s->m, MAP_SHARED_VALIDATE | MAP_SYNC);

	synchronous = rc == 0;
	if (!synchronous && !told)
		rc = refuse(job, -rc);
	else if (!synchronous)
		/* DAX without synchronous faults (virtio-pmem): only msync makes a write durable. */
		rc = gpuio_mapped_map(job, &s->m, MAP_SHARED);
	if (rc)
		return job->why.text[0] ? rc : gpuio_mapped_refused(job, &s->m, -rc);
	s->how = gpuio_persist_choose(NULL);
	if (!synchronous || !s->how->flush_line) {
		gpuio_say(&job->facts, "dax_attribute=%s map_sync=%s store=memcpy flush=msync", told ? "yes" : "no",
			  synchronous ? "yes" : "no");
		s->how = NULL;
		return 0;
	}
	gpuio_say(&job->facts, "dax_attribute=%s map_sync=yes store=%s flush=%s", told ? "yes" : "no", s->how->store, s->how->flush);
	return 0;
}

static int dax_open(struct gpuio_job *job)
{
	struct dax_state *s = calloc(1, sizeof(*s));
	uint64_t size = 0, align = (uint64_t)sysconf(_SC_PAGESIZE);
	struct stat st;
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	if (job->spec->replay.records) {
		gpuio_say(&job->why, "dax does not replay records: use the data path mmap on such a file");
		return -ENOTSUP;
	}
	if (fstat(job->spec->fd, &st) != 0)
		return -errno;
	s->device = S_ISCHR(st.st_mode);
	if (s->device) {
		size = device_fact(st.st_rdev, "size");
		align = device_fact(st.st_rdev, "align");
		if (size == 0 || align == 0 || align % (uint64_t)sysconf(_SC_PAGESIZE) != 0) {
			gpuio_say(&job->why, "the character device %u:%u is no DAX device (sysfs tells no size and alignment of it): name "
				  "/dev/daxX.Y", major(st.st_rdev), minor(st.st_rdev));
			return -ENOTSUP;
		}
	}
	rc = gpuio_mapped_prepare(job, &s->m, size, align);
	return rc ? rc : map_dax(job, s);
}

static void load(void *how, void *to, const void *from, size_t bytes)
{
	(void)how;
	memcpy(to, from, bytes);
}

static void store(void *how, void *to, const void *from, size_t bytes)
{
	if (how)
		gpuio_persist_copy(how, to, from, bytes);
	else
		memcpy(to, from, bytes);
}

static int dax_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct dax_state *s = job->priv;
	struct gpuio_io *io = ios[0];
	unsigned char *place = s->m.map + (io->offset - s->m.from);
	uint64_t length = gpuio_mapped_length(&s->m, io);

	(void)n; /* depth is 1 */
	if (io->op == GPUIO_READ) {
		io->result = gpuio_sigbus_guard(load, NULL, io->buf, place, length);
	} else {
		io->result = gpuio_sigbus_guard(store, (void *)(uintptr_t)s->how, place, io->buf, length);
		if (!s->how)
			gpuio_mapped_note(&s->m, io, length);
	}
	s->m.done = io;
	return 1;
}

static int dax_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct dax_state *s = job->priv;

	(void)min;
	return gpuio_mapped_reap(&s->m, done, max);
}

/* With MAP_SYNC a write was durable when it ended, and the file's own metadata when its page was first touched. */
static int dax_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	struct dax_state *s = job->priv;

	(void)file;
	(void)fd;
	return s->how ? 0 : gpuio_mapped_sync(&s->m, whole);
}

/* Another way than the map where there is one: what pread returns was really stored. */
static int64_t dax_read_back(struct gpuio_job *job, int fd, void *buf, uint32_t length, uint64_t offset)
{
	struct dax_state *s = job->priv;
	ssize_t got;

	if (s->device)
		return offset + length > s->m.size ? -EINVAL :
		       gpuio_sigbus_guard(load, NULL, buf, s->m.map + (offset - s->m.from), length);
	got = pread(fd, buf, length, (off_t)offset);
	return got < 0 ? -errno : got;
}

static void dax_close(struct gpuio_job *job)
{
	struct dax_state *s = job->priv;

	if (!s)
		return;
	gpuio_mapped_release(&s->m);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_dax = {
	.name = "dax",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_SYNC,
	.probe = dax_probe,
	.open = dax_open,
	.submit = dax_submit,
	.reap = dax_reap,
	.close = dax_close,
	.sync = dax_sync,
	.read_back = dax_read_back,
};
