/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libhf3fs_api_shared.c - a stand-in for 3FS's client library and the daemon behind it, written by us, for our own logic only. A thread
 * per ring plays the daemon; its I/O is the kernel's asynchronous one, which no count of read and write calls holds. It is no substitute
 * for the real ones.
 *
 * Environment:
 *	STANDIN_HF3FS_MOUNT  the folder that is taken for a mount of 3FS, "/" by default
 *	STANDIN_HF3FS_FAULT  foreign (no file is on 3FS), register:E, iov:E, ior:E, prepare:E, submit:E, wait:E (E is an errno), code:N
 *			     (each request ends with 3FS's status code N), short (half of each), wrong (a byte of each read is wrong),
 *			     never (no request ends), calls (bytes go by pread and pwrite, as they would not with real rings)
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_FDS 4096
#define MAX_ENTRIES 4096

struct hf3fs_iov {
	uint8_t *base;
	void *iovh;
	char id[16];
	char mount_point[256];
	size_t size, block_size;
	int numa;
};

struct hf3fs_ior {
	struct hf3fs_iov iov;
	void *iorh;
	char mount_point[256];
	bool for_read;
	int io_depth, priority, timeout;
	uint64_t flags;
};

struct hf3fs_cqe {
	int32_t index, reserved;
	int64_t result;
	const void *userdata;
};

struct file {
	bool there;
	int fd, access;
};

struct request {
	struct file *file;
	uint8_t *buf;
	size_t offset;
	uint64_t length;
	const void *userdata;
};

struct ring {
	pthread_mutex_t lock;
	pthread_cond_t asked, ended;
	pthread_t daemon;
	aio_context_t aio;
	bool read, quit, hinted;
	int io_depth, entries;
	int used;                  /* requests and results that hold an entry */
	unsigned shead, scount, chead, ccount;
	struct request requests[MAX_ENTRIES];
	struct hf3fs_cqe results[MAX_ENTRIES];
};

static struct file files[MAX_FDS];
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int live, largest_batch, rings_made;

/* The fault of that name, and its number. */
static bool fault(const char *name, int *value)
{
	const char *text = getenv("STANDIN_HF3FS_FAULT");
	size_t length = strlen(name);

	if (!text || strncmp(text, name, length) || (text[length] && text[length] != ':'))
		return false;
	if (value)
		*value = text[length] ? (int)strtol(text + length + 1, NULL, 0) : 0;
	return true;
}

/* Rings, shared memories and registered files that were not given back. */
EXPORT int standin_hf3fs_live(void)
{
	return atomic_load(&live);
}

/* Most requests that a daemon took up at a time since the last call. */
EXPORT int standin_hf3fs_largest_batch(void)
{
	return atomic_exchange(&largest_batch, 0);
}

EXPORT int standin_hf3fs_rings_made(void)
{
	return atomic_exchange(&rings_made, 0);
}

EXPORT bool hf3fs_is_hf3fs(int fd)
{
	return fd >= 0 && !fault("foreign", NULL);
}

EXPORT int hf3fs_extract_mount_point(char *mount_point, int size, const char *path)
{
	const char *mount = getenv("STANDIN_HF3FS_MOUNT");
	char real[PATH_MAX + 1] = "";
	size_t length;

	if (!mount)
		mount = "/";
	length = strlen(mount);
	/* A file without a name still has what its link in /proc says. */
	if (!realpath(path, real) && readlink(path, real, PATH_MAX) < 0)
		return -1;
	if (fault("foreign", NULL) || strncmp(real, mount, length) || (length > 1 && real[length] && real[length] != '/'))
		return -1;
	if ((int)length < size)
		memcpy(mount_point, mount, length + 1);
	return (int)length + 1;
}

EXPORT int hf3fs_iovcreate(struct hf3fs_iov *iov, const char *mount, size_t size, size_t block_size, int numa)
{
	int error;

	if (fault("iov", &error))
		return -error;
	memset(iov, 0, sizeof(*iov));
	iov->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (iov->base == MAP_FAILED)
		return -errno;
	strncpy(iov->mount_point, mount, sizeof(iov->mount_point) - 1);
	iov->size = size;
	iov->block_size = block_size;
	iov->numa = numa;
	atomic_fetch_add(&live, 1);
	return 0;
}

EXPORT void hf3fs_iovdestroy(struct hf3fs_iov *iov)
{
	munmap(iov->base, iov->size);
	atomic_fetch_sub(&live, 1);
}

static int64_t move(const struct ring *ring, const struct request *r)
{
	/* Whole sectors, as direct I/O needs. */
	uint64_t length = fault("short", NULL) ? r->length / 1024 * 512 : r->length;
	struct iocb block = {0}, *list = &block;
	struct io_event event;
	int code;

	if (fault("code", &code))
		return -code;
	if (fault("calls", NULL))
		return ring->read ? pread(r->file->fd, r->buf, length, (off_t)r->offset) :
				    pwrite(r->file->fd, r->buf, length, (off_t)r->offset);
	block.aio_lio_opcode = ring->read ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
	block.aio_fildes = (uint32_t)r->file->fd;
	block.aio_buf = (uintptr_t)r->buf;
	block.aio_nbytes = length;
	block.aio_offset = (int64_t)r->offset;
	if (syscall(SYS_io_submit, ring->aio, 1, &list) != 1 || syscall(SYS_io_getevents, ring->aio, 1, 1, &event, NULL) != 1)
		return -69; /* 3FS's IOError */
	if (ring->read && fault("wrong", NULL))
		r->buf[length / 2] ^= 1;
	return event.res < 0 ? -69 : event.res;
}

/* How many the daemon takes up now. */
static unsigned to_take(const struct ring *ring)
{
	unsigned depth = (unsigned)abs(ring->io_depth);

	if (ring->io_depth > 0)
		return ring->scount >= depth ? depth : 0;
	return depth && ring->scount > depth ? depth : ring->scount;
}

static void *play_daemon(void *arg)
{
	struct ring *ring = arg;

	pthread_mutex_lock(&ring->lock);
	while (!ring->quit) {
		unsigned n = ring->hinted && !fault("never", NULL) ? to_take(ring) : 0;

		if (n == 0) {
			ring->hinted = false;
			pthread_cond_wait(&ring->asked, &ring->lock);
			continue;
		}
		if ((int)n > atomic_load(&largest_batch))
			atomic_store(&largest_batch, (int)n);
		for (unsigned i = 0; i < n; i++) {
			struct request r = ring->requests[ring->shead];
			int64_t result;

			ring->shead = (ring->shead + 1) % MAX_ENTRIES;
			ring->scount--;
			pthread_mutex_unlock(&ring->lock);
			result = move(ring, &r);
			pthread_mutex_lock(&ring->lock);
			ring->results[(ring->chead + ring->ccount) % MAX_ENTRIES] =
				(struct hf3fs_cqe){.result = result, .userdata = r.userdata};
			ring->ccount++;
		}
		pthread_cond_signal(&ring->ended);
	}
	pthread_mutex_unlock(&ring->lock);
	return NULL;
}

EXPORT int hf3fs_iorcreate4(struct hf3fs_ior *ior, const char *mount, int entries, bool for_read, int io_depth, int timeout, int numa,
			    uint64_t flags)
{
	struct ring *ring;
	int error;

	if (fault("ior", &error))
		return -error;
	if (entries < 1 || entries > MAX_ENTRIES || timeout < 0)
		return -EINVAL;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	memset(ior, 0, sizeof(*ior));
	strncpy(ior->mount_point, mount, sizeof(ior->mount_point) - 1);
	ior->iov.numa = numa;
	ior->for_read = ring->read = for_read;
	ior->io_depth = ring->io_depth = io_depth;
	ior->timeout = timeout;
	ior->flags = flags;
	ring->entries = entries;
	pthread_mutex_init(&ring->lock, NULL);
	pthread_cond_init(&ring->asked, NULL);
	pthread_cond_init(&ring->ended, NULL); /* CLOCK_REALTIME, which deadlines are of */
	if (syscall(SYS_io_setup, 1, &ring->aio) < 0) {
		error = errno;
		free(ring);
		return -error;
	}
	error = pthread_create(&ring->daemon, NULL, play_daemon, ring);
	if (error) {
		syscall(SYS_io_destroy, ring->aio);
		free(ring);
		return -error;
	}
	ior->iorh = ring;
	atomic_fetch_add(&live, 1);
	atomic_fetch_add(&rings_made, 1);
	return 0;
}

EXPORT void hf3fs_iordestroy(struct hf3fs_ior *ior)
{
	struct ring *ring = ior->iorh;

	pthread_mutex_lock(&ring->lock);
	ring->quit = true;
	pthread_cond_signal(&ring->asked);
	pthread_mutex_unlock(&ring->lock);
	pthread_join(ring->daemon, NULL);
	syscall(SYS_io_destroy, ring->aio);
	free(ring);
	ior->iorh = NULL;
	atomic_fetch_sub(&live, 1);
}

EXPORT int hf3fs_reg_fd(int fd, uint64_t flags)
{
	int error, access;

	(void)flags;
	if (fault("register", &error))
		return error;
	if (fd < 1 || fd >= MAX_FDS || !hf3fs_is_hf3fs(fd))
		return EBADF;
	access = fcntl(fd, F_GETFL) & O_ACCMODE;
	pthread_mutex_lock(&files_lock);
	error = files[fd].there ? EINVAL : 0;
	if (error == 0)
		files[fd] = (struct file){.there = true, .fd = fd, .access = access};
	pthread_mutex_unlock(&files_lock);
	if (error)
		return error;
	atomic_fetch_add(&live, 1);
	return -fd;
}

EXPORT void hf3fs_dereg_fd(int fd)
{
	pthread_mutex_lock(&files_lock);
	if (fd >= 0 && fd < MAX_FDS && files[fd].there) {
		files[fd].there = false;
		atomic_fetch_sub(&live, 1);
	}
	pthread_mutex_unlock(&files_lock);
}

EXPORT int hf3fs_prep_io(const struct hf3fs_ior *ior, const struct hf3fs_iov *iov, bool read, void *ptr, int fd, size_t off, uint64_t len,
			 const void *userdata)
{
	struct ring *ring = ior->iorh;
	struct file *file = &files[abs(fd) % MAX_FDS];
	uint8_t *p = ptr;
	int rc = 0, error;

	if (fault("prepare", &error))
		return -error;
	if (read != ior->for_read || len == 0 || p < iov->base || p + len > iov->base + iov->size)
		return -EINVAL;
	if (!file->there)
		return -EBADF;
	if (read ? file->access == O_WRONLY : file->access == O_RDONLY)
		return -EACCES;
	pthread_mutex_lock(&ring->lock);
	if (ring->used == ring->entries) {
		rc = -EAGAIN;
	} else {
		ring->used++;
		ring->requests[(ring->shead + ring->scount) % MAX_ENTRIES] =
			(struct request){.file = file, .buf = p, .offset = off, .length = len, .userdata = userdata};
		ring->scount++;
	}
	pthread_mutex_unlock(&ring->lock);
	return rc;
}

EXPORT int hf3fs_submit_ios(const struct hf3fs_ior *ior)
{
	struct ring *ring = ior->iorh;
	int error;

	if (fault("submit", &error))
		return -error;
	pthread_mutex_lock(&ring->lock);
	ring->hinted = true;
	pthread_cond_signal(&ring->asked);
	pthread_mutex_unlock(&ring->lock);
	return 0;
}

EXPORT int hf3fs_wait_for_ios(const struct hf3fs_ior *ior, struct hf3fs_cqe *cqes, int cqec, int min_results,
			      const struct timespec *abs_timeout)
{
	struct ring *ring = ior->iorh;
	int filled = 0, rc = 0, error;

	if (fault("wait", &error))
		return -error;
	if (cqec <= 0)
		return -EINVAL;
	if (min_results > cqec)
		min_results = cqec;
	pthread_mutex_lock(&ring->lock);
	for (;;) {
		while (ring->ccount && filled < cqec) {
			cqes[filled++] = ring->results[ring->chead];
			ring->chead = (ring->chead + 1) % MAX_ENTRIES;
			ring->ccount--;
			ring->used--;
		}
		if (filled >= min_results || rc)
			break;
		rc = abs_timeout ? pthread_cond_timedwait(&ring->ended, &ring->lock, abs_timeout) :
				   pthread_cond_wait(&ring->ended, &ring->lock);
	}
	pthread_mutex_unlock(&ring->lock);
	return filled;
}
