/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usrbio.c - 3FS's user-space rings: each job has shared memory of its own, and a ring for each direction it needs. The daemon of the
 * FUSE mount does the I/O; nothing goes through the kernel's file system.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"
#include "clock.h"
#include "dl/usrbio.h"
#include "registry.h"
#include "why.h"

#define LOOK_NS UINT64_C(100000000) /* how long one wait lasts at most, so that a deadline is seen */
#define TURN_NS UINT64_C(100000)    /* the same where two rings are waited for in turn */
#define DRAIN_NS UINT64_C(500000000) /* shorter than closing a run may take */
#define SECOND_NS UINT64_C(1000000000)

enum { READS, WRITES, RINGS };

struct usrbio_file {
	int fd;     /* a duplicate of ours: the library registers a descriptor once */
	int number; /* what stands for it in requests */
	bool registered;
};

struct usrbio_ring {
	union usrbio_ior_room room;
	bool there;
	unsigned flying;
};

struct usrbio_state {
	struct gpuio_usrbio_lib lib;
	union usrbio_iov_room memory;
	bool has_memory;
	char mount[USRBIO_MOUNT_BYTES];
	struct usrbio_ring rings[RINGS];
	struct usrbio_file *files;
	uint32_t n_files;
	struct usrbio_cqe *cqes;
	struct gpuio_io **refused; /* could not be prepared; reaped with their error */
	unsigned nrefused;
};

static int usrbio_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_usrbio_lib lib;
	int rc = gpuio_usrbio_lib_open(&lib, library, why);

	gpuio_usrbio_lib_close(&lib);
	return rc;
}

static int find_mount(const struct gpuio_usrbio_lib *lib, const char *path, const char *shown, char *mount, struct gpuio_why *why)
{
	int length = lib->mount_point(mount, USRBIO_MOUNT_BYTES, path);

	if (length > 0 && length <= USRBIO_MOUNT_BYTES)
		return 0;
	if (length > 0)
		gpuio_say(why, "the mount point of %s is %d bytes long: 3FS's rings take %d", shown, length - 1, USRBIO_MOUNT_BYTES - 1);
	else
		gpuio_say(why, "%s is not on 3FS: name a folder below a mount of hf3fs_fuse_main (type fuse.hf3fs) as target", shown);
	return length > 0 ? -ENAMETOOLONG : -EXDEV;
}

int gpuio_usrbio_accepts(const char *library, const char *path, struct gpuio_why *why)
{
	struct gpuio_usrbio_lib lib;
	char mount[USRBIO_MOUNT_BYTES];
	int rc = gpuio_usrbio_lib_open(&lib, library, why);

	if (rc == 0)
		rc = find_mount(&lib, path, path, mount, why);
	gpuio_usrbio_lib_close(&lib);
	return rc;
}

static int register_file(struct gpuio_job *job, struct usrbio_file *file, int fd)
{
	struct usrbio_state *s = job->priv;

	file->fd = dup(fd);
	if (file->fd < 0) {
		int err = errno;

		gpuio_say(&job->why, "descriptor %d of the target cannot be duplicated (%s): raise ulimit -n, or lower jobs", fd,
			  strerror(err));
		return -err;
	}
	if (!s->lib.is_3fs(file->fd)) {
		gpuio_say(&job->why, "the target's file is not on 3FS: name a folder below a mount of hf3fs_fuse_main as target");
		return -EXDEV;
	}
	file->number = s->lib.reg_fd(file->fd, 0);
	if (file->number > 0) {
		gpuio_say(&job->why, "3FS's client refused to register the target's file (%s)", strerror(file->number));
		return -file->number;
	}
	file->registered = true;
	return 0;
}

static int register_files(struct gpuio_job *job)
{
	const struct gpuio_spec *spec = job->spec;
	struct usrbio_state *s = job->priv;
	uint32_t n = spec->replay.records ? spec->replay.n_files : 1;

	s->files = calloc(n, sizeof(*s->files));
	if (!s->files)
		return -ENOMEM;
	for (; s->n_files < n; s->n_files++) {
		int rc;

		s->files[s->n_files].fd = -1;
		rc = register_file(job, &s->files[s->n_files], spec->replay.records ? spec->replay.fds[s->n_files] : spec->fd);
		if (rc) {
			s->n_files++; /* its descriptor is ours to close */
			return rc;
		}
	}
	return 0;
}

/* The daemon takes up as many at a time as one submission holds; of single ones all that there are. */
static int io_depth(const struct gpuio_spec *spec)
{
	return spec->submit_batch > 1 ? -(int)spec->submit_batch : 0;
}

static int make_rings(struct gpuio_job *job)
{
	const struct gpuio_spec *spec = job->spec;
	struct usrbio_state *s = job->priv;

	for (int way = READS; way < RINGS; way++) {
		int rc;

		if (way == READS ? spec->read_percent == 0 : spec->read_percent == 100)
			continue;
		rc = s->lib.ior_create(&s->rings[way].room.ior, s->mount, (int)spec->depth, way == READS, io_depth(spec), 0,
				       USRBIO_ANY_NODE, way == READS ? USRBIO_FORBID_HOLES : 0);
		if (rc) {
			gpuio_say(&job->why, "3FS's client made no ring of %" PRIu32 " %s on %s (%s): is hf3fs_fuse_main up, and is there "
				  "room in /dev/shm?", spec->depth, way == READS ? "reads" : "writes", s->mount, strerror(-rc));
			return rc;
		}
		s->rings[way].there = true;
	}
	return 0;
}

/* Requests move between the daemon and shared memory only, so they get such buffers instead of the pool's. */
static int take_buffers(struct gpuio_job *job)
{
	struct usrbio_state *s = job->priv;
	uint64_t stride = slot_stride(job->spec->block);
	struct usrbio_iov *iov = &s->memory.iov;
	int rc = s->lib.iov_create(iov, s->mount, stride * job->slots, 0, USRBIO_ANY_NODE);

	if (rc) {
		gpuio_say(&job->why, "3FS's client shared no %" PRIu64 " bytes with the daemon of %s (%s): make room in /dev/shm, or lower "
			  "block size, depth or jobs", stride * job->slots, s->mount, strerror(-rc));
		return rc;
	}
	s->has_memory = true;
	for (uint32_t i = 0; i < job->slots; i++)
		job->ios[i].buf = iov->base + i * stride;
	return 0;
}

static int usrbio_open(struct gpuio_job *job)
{
	const struct gpuio_spec *spec = job->spec;
	struct usrbio_state *s = calloc(1, sizeof(*s));
	char link[32];
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	if (spec->gpu.ordinals) {
		gpuio_say(&job->why, "usrbio reads into host memory only: use another data path");
		return -ENOTSUP;
	}
	s->cqes = calloc(spec->depth, sizeof(*s->cqes));
	s->refused = calloc(spec->depth, sizeof(struct gpuio_io *));
	if (!s->cqes || !s->refused)
		return -ENOMEM;
	rc = gpuio_usrbio_lib_open(&s->lib, spec->library, &job->why);
	if (rc)
		return rc;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", spec->replay.records ? spec->replay.fds[0] : spec->fd);
	rc = find_mount(&s->lib, link, "the target's file", s->mount, &job->why);
	if (rc == 0)
		rc = register_files(job);
	if (rc == 0)
		rc = make_rings(job);
	if (rc == 0)
		rc = take_buffers(job);
	if (rc == 0)
		gpuio_say(&job->facts, "rings=%d entries=%" PRIu32 " io_depth=%d holes=refused mount=%s",
			  s->rings[READS].there + s->rings[WRITES].there, spec->depth, io_depth(spec), s->mount);
	return rc;
}

static int usrbio_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct usrbio_state *s = job->priv;
	bool touched[RINGS] = {false, false};
	unsigned taken = 0;

	for (; taken < n; taken++) {
		struct gpuio_io *io = ios[taken];
		int way = io->op == GPUIO_READ ? READS : WRITES;
		struct usrbio_ring *ring = &s->rings[way];
		int rc = s->lib.prepare(&ring->room.ior, &s->memory.iov, way == READS, io->buf, s->files[io->file].number, io->offset,
					io->length, io);

		if (rc == -EAGAIN)
			break;
		if (rc < 0) {
			io->result = rc;
			s->refused[s->nrefused++] = io;
			continue;
		}
		ring->flying++;
		touched[way] = true;
	}
	for (int way = READS; way < RINGS; way++) {
		int rc = touched[way] ? s->lib.submit(&s->rings[way].room.ior) : 0;

		if (rc < 0) {
			gpuio_say(&job->why, "3FS's client cannot tell the daemon of %s about requests (%s)", s->mount, strerror(-rc));
			return rc;
		}
	}
	return (int)taken;
}

/* On the clock that the library's deadlines are of. */
static struct timespec after(uint64_t ns)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	ns += (uint64_t)at.tv_nsec;
	at.tv_sec += (time_t)(ns / SECOND_NS);
	at.tv_nsec = (long)(ns % SECOND_NS);
	return at;
}

/* Takes up to max finished requests of a ring, waiting for `least` of them at most for the time given. How many, or -errno. */
static int take_from(struct gpuio_job *job, struct usrbio_ring *ring, struct gpuio_io **done, unsigned least, unsigned max, uint64_t ns)
{
	struct usrbio_state *s = job->priv;
	unsigned room = ring->flying < max ? ring->flying : max;
	struct timespec deadline = {0, 0};
	int got;

	if (room == 0)
		return 0;
	if (least)
		deadline = after(ns);
	got = s->lib.wait(&ring->room.ior, s->cqes, (int)room, (int)(least < room ? least : room), &deadline);
	if (got < 0 || (unsigned)got > room) {
		gpuio_say(&job->why, "3FS's client cannot wait for requests on %s (%s)", s->mount,
			  got < 0 ? strerror(-got) : "more ended than were asked for");
		return got < 0 ? got : -EPROTO;
	}
	for (int i = 0; i < got; i++) {
		/* The library gives the pointer back as it was given. */
		struct gpuio_io *io = (struct gpuio_io *)(uintptr_t)s->cqes[i].cookie;
		int64_t result = s->cqes[i].result;

		io->result = result < 0 ? result - GPUIO_3FS_CODES : result;
		done[i] = io;
	}
	ring->flying -= (unsigned)got;
	return got;
}

static unsigned take_refused(struct usrbio_state *s, struct gpuio_io **done, unsigned max)
{
	unsigned n = s->nrefused < max ? s->nrefused : max;

	memcpy(done, s->refused, n * sizeof(struct gpuio_io *));
	s->nrefused -= n;
	memmove(s->refused, s->refused + n, s->nrefused * sizeof(struct gpuio_io *));
	return n;
}

/* One look at both rings, waiting at the one that holds more. Stores how many were added to *n. */
static int look(struct gpuio_job *job, struct gpuio_io **done, unsigned *n, unsigned least, unsigned max, uint64_t ns)
{
	struct usrbio_state *s = job->priv;
	struct usrbio_ring *fuller = &s->rings[s->rings[WRITES].flying > s->rings[READS].flying ? WRITES : READS];
	struct usrbio_ring *other = fuller == &s->rings[READS] ? &s->rings[WRITES] : &s->rings[READS];
	bool both = other->flying > 0;
	int got;

	if (both) {
		got = take_from(job, other, done + *n, 0, max - *n, 0);
		if (got < 0)
			return got;
		*n += (unsigned)got;
	}
	least = *n < least ? least - *n : 0;
	/* What ends next may be in the other ring. */
	got = take_from(job, fuller, done + *n, both && least ? 1 : least, max - *n, both && ns > TURN_NS ? TURN_NS : ns);
	if (got < 0)
		return got;
	*n += (unsigned)got;
	return 0;
}

static int gather(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max, uint64_t until_ns)
{
	struct usrbio_state *s = job->priv;
	unsigned n = take_refused(s, done, max);

	do {
		uint64_t now = min > n ? mono_ns() : 0;
		int rc = look(job, done, &n, min, max, until_ns > now ? until_ns - now : 0);

		if (rc)
			return n ? (int)n : rc;
	} while (n < min && (s->rings[READS].flying || s->rings[WRITES].flying) && mono_ns() < until_ns);
	return (int)n;
}

/* When nothing came in time the caller looks whether its deadline has passed. */
static int usrbio_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	return gather(job, done, min, max, min ? mono_ns() + LOOK_NS : 0);
}

static int usrbio_wait(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns)
{
	return gather(job, done, 1, max, deadline_ns);
}

/* The daemon has a map of its own, so that what still comes hurts nobody; but a ring is best left empty. */
static void drain(struct gpuio_job *job)
{
	struct usrbio_state *s = job->priv;
	uint64_t until = mono_ns() + DRAIN_NS;

	while ((s->rings[READS].flying || s->rings[WRITES].flying) && mono_ns() < until)
		if (gather(job, s->refused, 1, job->spec->depth, until) <= 0)
			return;
}

static void usrbio_close(struct gpuio_job *job)
{
	struct usrbio_state *s = job->priv;

	if (!s)
		return;
	s->nrefused = 0;
	drain(job);
	for (int way = READS; way < RINGS; way++)
		if (s->rings[way].there)
			s->lib.ior_destroy(&s->rings[way].room.ior);
	for (uint32_t i = 0; i < s->n_files; i++) {
		if (s->files[i].registered)
			s->lib.dereg_fd(s->files[i].fd);
		if (s->files[i].fd >= 0)
			close(s->files[i].fd);
	}
	if (s->has_memory) {
		s->lib.iov_destroy(&s->memory.iov);
		for (uint32_t i = 0; i < job->slots; i++)
			job->ios[i].buf = NULL;
	}
	gpuio_usrbio_lib_close(&s->lib);
	free(s->files);
	free(s->cqes);
	free(s->refused);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_usrbio = {
	.name = "usrbio",
	.abi = GPUIO_ABI,
	.flags = 0,
	.probe = usrbio_probe,
	.open = usrbio_open,
	.submit = usrbio_submit,
	.reap = usrbio_reap,
	.close = usrbio_close,
	.wait = usrbio_wait,
};
