/* SPDX-License-Identifier: Apache-2.0 */
/* uring.h - what the engines on an io_uring share: a ring per worker, set up, registered with, filled and reaped. */
#ifndef GPUIO_ENGINES_URING_H
#define GPUIO_ENGINES_URING_H

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dl/liburing.h"
#include "engines/nvme.h"
#include "gpuio.h"

struct uring_state;

/* What a request becomes. All but transfers complete with 0 or an error instead of a number of bytes. */
enum uring_form { URING_TRANSFER, URING_NOP, URING_COMMAND };

/* How one engine of the family differs from the others. */
struct uring_kind {
	unsigned setup;  /* IORING_SETUP_* it cannot do without */
	uint32_t knobs;  /* GPUIO_KNOB_* it may have */
	enum uring_form form;
	/* NULL = nothing. Before the ring is set up: asks the file what it is. 0 or -errno. */
	int (*attach)(struct gpuio_job *job, struct uring_state *s);
};

struct uring_state {
	alignas(64) struct io_uring ring;
	struct gpuio_liburing lib;
	const struct uring_kind *kind;
	enum uring_form form;       /* the kind's */
	uint32_t knobs;             /* GPUIO_KNOB_* that can be had: the kind's, less what attach takes away */
	bool ready;                 /* the ring is set up */
	bool fixed, merged;
	bool sqpoll, iopoll;
	uint8_t flags;              /* of every SQE */
	uint8_t opcodes[2];         /* of GPUIO_READ and GPUIO_WRITE, for transfers */
	uint8_t sqe_shift, cqe_shift;
	bool registered;            /* files: requests name them by their index */
	unsigned sq_mask, sq_entries, cq_mask;
	struct nvme_namespace ns;   /* io_uring_cmd only */
};

/* uring_setup.c */
struct uring_state *gpuio_uring_new(const struct uring_kind *kind);
void gpuio_uring_free(struct uring_state *s);
int gpuio_uring_setup(struct uring_state *s, struct io_uring_params *params, struct gpuio_why *why);
int gpuio_uring_probe(const struct uring_kind *kind, const char *library, struct gpuio_why *why);
int gpuio_uring_open(struct gpuio_job *job, const struct uring_kind *kind);
void gpuio_uring_close(struct gpuio_job *job);

/* uring_register.c: what was asked for and can be had; 0, or -errno when a knob is required or the memory is not there. */
int gpuio_uring_register(struct gpuio_job *job, struct uring_state *s);

/* uring_transfer.c */
int gpuio_uring_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n);
int gpuio_uring_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max);
int gpuio_uring_wait(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns);

/* uring_why.c. Why io_uring_setup failed with `error` (positive). `proc` is "/proc" but in tests. */
void gpuio_uring_explain_setup(int error, const struct io_uring_params *params, unsigned entries, const char *proc,
			       struct gpuio_why *why);
/* Why io_uring_register_buffers failed for `bytes` of memory. */
void gpuio_uring_explain_buffers(int error, uint64_t bytes, struct gpuio_why *why);

/* What the kernel did not take now stays queued and goes with the next call; that is no error. */
static inline bool uring_for_now(int rc)
{
	return rc == -EINTR || rc == -EAGAIN || rc == -EBUSY;
}

/* The next free place of the submission queue, NULL when there is none. */
static inline struct io_uring_sqe *uring_sqe(struct uring_state *s)
{
	struct io_uring_sq_view *sq = &s->ring.sq;
	unsigned tail = sq->sqe_tail;

	if (__builtin_expect(tail - __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE) >= s->sq_entries, 0))
		return NULL;
	sq->sqe_tail = tail + 1;
	return &sq->sqes[(size_t)(tail & s->sq_mask) << s->sqe_shift];
}

/* io_uring_cmd.c */
void gpuio_uring_fill_command(const struct uring_state *s, struct io_uring_sqe *sqe, const struct gpuio_io *io);

/* The file as the kernel wants it: its descriptor, or its place among the registered ones. */
static inline int uring_file(const struct uring_state *s, const struct gpuio_io *io)
{
	return s->registered ? io->file : io->fd;
}

/* Writes one request into an SQE. */
static inline void uring_fill(const struct uring_state *s, struct io_uring_sqe *sqe, struct gpuio_io *io)
{
	memset(sqe, 0, sizeof(*sqe));
	if (__builtin_expect(s->form == URING_TRANSFER, 1)) {
		/* The opcodes of plain transfers: READ, WRITE; with a registered buffer: READ_FIXED, WRITE_FIXED. */
		sqe->opcode = s->opcodes[io->op];
		sqe->buf_index = s->fixed ? (uint16_t)io->index : 0;
		sqe->flags = s->flags;
		sqe->fd = uring_file(s, io);
		sqe->off = io->offset;
		sqe->addr = (uintptr_t)io->buf;
		sqe->len = io->length;
	} else if (s->form == URING_NOP) {
		sqe->opcode = IORING_OP_NOP;
		sqe->fd = -1;
	} else {
		gpuio_uring_fill_command(s, sqe, io);
	}
	sqe->user_data = (uintptr_t)io;
}

/* Hands the queued SQEs to the kernel's poller, waking it when it sleeps. */
int gpuio_uring_hand_over(struct uring_state *s);

#endif
