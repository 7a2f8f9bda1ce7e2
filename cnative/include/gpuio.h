/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpuio.h - the one public header of the gpuio I/O engine.
 *
 * Contract, everywhere:
 *   - a function that can fail returns 0 (or a count) or -errno; a sentence for people goes to struct gpuio_why;
 *   - no global state but the list of engines loaded from outside: a run owns its jobs, a job owns what its engine
 *     keeps in job->priv;
 *   - one run is driven by one thread at a time; its workers are private threads of the run;
 *   - times are nanoseconds of CLOCK_MONOTONIC unless a field says ticks.
 */
#ifndef GPUIO_H
#define GPUIO_H

#include <stddef.h>
#include <stdint.h>

#define GPUIO_ABI 3

/* ---- words for people -------------------------------------------------------------------------------------- */

struct gpuio_why {
	char text[256]; /* one sentence: what happened, on what, the remedy; "" when there is nothing to say */
};

/* ---- latency histogram: log-linear, 64 bins per power of two, error <= 1/128, 1 ns .. 2^42 ns (73 min) ------- */

#define GPUIO_HIST_SUB_BITS 6
#define GPUIO_HIST_MAX_BITS 42
#define GPUIO_HIST_BINS ((GPUIO_HIST_MAX_BITS - GPUIO_HIST_SUB_BITS + 1) << GPUIO_HIST_SUB_BITS)

struct gpuio_hist {
	uint64_t count;    /* all values, overflow included */
	uint64_t overflow; /* values >= 2^42 ns; they are in count, sum and max, and in no bin */
	uint64_t sum_ns;
	uint64_t min_ns; /* UINT64_MAX while empty */
	uint64_t max_ns;
	uint64_t bins[GPUIO_HIST_BINS];
};

void gpuio_hist_reset(struct gpuio_hist *h);
void gpuio_hist_add(struct gpuio_hist *h, uint64_t ns);
void gpuio_hist_merge(struct gpuio_hist *into, const struct gpuio_hist *from);
unsigned gpuio_hist_bin(uint64_t ns);            /* index of the bin that holds ns; GPUIO_HIST_BINS = overflow */
uint64_t gpuio_hist_bin_low(unsigned bin);       /* smallest value of a bin */
uint64_t gpuio_hist_bin_width(unsigned bin);     /* number of whole nanoseconds in a bin */
int gpuio_hist_quantile(const struct gpuio_hist *h, double q, uint64_t *ns); /* bin middle clamped to [min,max];
                                                                              * -ENODATA when empty, -EINVAL on q */

/* ---- clock ------------------------------------------------------------------------------------------------ */

enum { GPUIO_CLOCK_MONOTONIC = 0, GPUIO_CLOCK_TSC = 1 };

struct gpuio_clock {
	int source;          /* GPUIO_CLOCK_*: TSC only where the kernel's clocksource is tsc and the TSC is invariant */
	double ns_per_tick;  /* 1.0 for CLOCK_MONOTONIC */
	double cost_ns;      /* mean cost of one stamp */
	uint64_t resolution_ns; /* smallest step seen between two different stamps */
};

/* Chooses and calibrates (spins about 10 ms for TSC). force = -1 choose, else GPUIO_CLOCK_*; -ENOTSUP when forced
 * to a TSC that cannot be trusted. */
int gpuio_clock_init(struct gpuio_clock *clock, int force, struct gpuio_why *why);

/* ---- buffers: one pool per process, reused by every run ------------------------------------------------------ */

struct gpuio_pool;

struct gpuio_pool_info {
	void *base;          /* 2 MiB aligned */
	uint64_t bytes;      /* mapped */
	uint64_t huge_bytes; /* backed by huge pages as /proc/self/smaps says; 0 when unknown */
	uint64_t map_ns;     /* mapping and prefaulting it, when it last grew */
	uint64_t pinned_bytes; /* page-locked for GPUs; 0 = not asked for yet */
	uint64_t pin_ns;     /* page-locking it */
};

struct gpuio_pool *gpuio_pool_new(void);
/* Grows (never shrinks) to at least `bytes`, prefaulted, MADV_HUGEPAGE. A pool that grew has moved. */
int gpuio_pool_reserve(struct gpuio_pool *pool, uint64_t bytes, struct gpuio_why *why);
void gpuio_pool_describe(const struct gpuio_pool *pool, struct gpuio_pool_info *info);
void gpuio_pool_free(struct gpuio_pool *pool);

/* ---- data pattern: position dependent, incompressible, checkable at any 512-byte boundary ------------------- */

/* Each 512-byte sector of a target holds: word 0 = mix(seed, file offset of the sector); word 1 = body index b;
 * words 2..63 = the body stream at b. So a sector proves where it belongs and that no byte of it changed, and a
 * prepared buffer becomes valid for any offset by stamping word 0 of its sectors. */
#define GPUIO_SECTOR 512u

void gpuio_pattern_fill(void *buf, uint64_t bytes, uint64_t offset, uint64_t seed); /* whole sectors, unique bodies */
void gpuio_pattern_stamp(void *buf, uint64_t bytes, uint64_t offset, uint64_t seed); /* word 0 only */
/* Returns the number of bad sectors; *first_bad = file offset of the first one. Sectors of which only a part lies in
 * the buffer are not checked. */
uint64_t gpuio_pattern_check(const void *buf, uint64_t bytes, uint64_t offset, uint64_t seed, uint64_t *first_bad);

/* ---- GPUs: looking at them makes no context ------------------------------------------------------------------ */

struct gpuio_gpu_info {
	int32_t ordinal;
	char name[128];
	unsigned char uuid[16];
	char bus_id[32];      /* "0000:17:00.0" */
	uint64_t bytes;       /* of its memory */
	int32_t capability_major, capability_minor;
	int32_t copy_engines;
	int32_t driver_version; /* 1000 x major + 10 x minor of the CUDA version the driver knows */
};

/* The GPUs that the CUDA driver (`library`, NULL = search) shows; -ELIBACC without a driver, -ENODEV without a GPU. */
int gpuio_gpu_count(const char *library, int32_t *count, struct gpuio_why *why);
int gpuio_gpu_describe(const char *library, int32_t ordinal, struct gpuio_gpu_info *info, struct gpuio_why *why);

/* Memory on a GPU for callers without a run; the calling thread keeps the GPU's primary context afterwards. */
struct gpuio_memory;

int gpuio_memory_new(const char *library, int32_t ordinal, uint64_t bytes, struct gpuio_memory **out, struct gpuio_why *why);
uint64_t gpuio_memory_address(const struct gpuio_memory *memory);
int gpuio_memory_read(struct gpuio_memory *memory, uint64_t place, void *to, uint64_t bytes, struct gpuio_why *why);
int gpuio_memory_write(struct gpuio_memory *memory, uint64_t place, const void *from, uint64_t bytes, struct gpuio_why *why);
void gpuio_memory_free(struct gpuio_memory *memory);

/* memcpy to persistent memory; then every byte has left the CPU's caches. 1, or 0 where this CPU cannot promise that. */
int gpuio_persist(void *to, const void *from, uint64_t bytes);

/* ---- a cell's geometry -------------------------------------------------------------------------------------- */

enum { GPUIO_READ = 0, GPUIO_WRITE = 1, GPUIO_FSYNC = 2 /* of a record only */ };
enum { GPUIO_SEQUENTIAL = 0, GPUIO_RANDOM = 1, GPUIO_ZIPF = 2 };
enum { GPUIO_SYNC_NONE = 0, GPUIO_SYNC_END = 1, GPUIO_SYNC_EVERY = 2 }; /* END: fsync inside the window;
                                                                         * EVERY: drain + fdatasync each sync_every */
enum {
	GPUIO_KNOB_FIXED_BUFFERS = 1 << 0,    /* asked; job->effective says what was had */
	GPUIO_KNOB_REGISTERED_FILES = 1 << 1,
	GPUIO_KNOB_SINGLE_ISSUER = 1 << 2,    /* SINGLE_ISSUER + DEFER_TASKRUN */
	GPUIO_KNOB_MERGED_WAIT = 1 << 3,      /* submit only queues; reap submits and waits in one call (no slat) */
	GPUIO_KNOB_REQUIRE = 1 << 15,         /* a knob that cannot be had is an error instead of being recorded as off */
};

/* How an open loop waits for the next arrival while nothing completes: SLEEP in the kernel (absolute deadline, TIMER or the
 * engine's own wait with a time-out), SPIN on the clock and the completion queue. */
enum { GPUIO_WAIT_SLEEP = 0, GPUIO_WAIT_SPIN = 1 };

/* Where bytes end (reads) or begin (writes). Host memory unless `ordinals` is set. */
/* How the consumer of a chain computes: time passes; or a kernel runs on the GPU, doing what takes that time alone. */
enum { GPUIO_COMPUTE_TIMER = 0, GPUIO_COMPUTE_KERNEL = 1 };
enum { GPUIO_GPU_KERNEL = 0, GPUIO_GPU_COPY = 1 }; /* data is checked by a kernel on the GPU, or copied back and checked here */

struct gpuio_gpu_spec {
	const int32_t *ordinals; /* the CUDA driver's number of each worker's GPU, jobs entries; NULL = host memory */
	const char *library;     /* CUDA driver to open at run time, NULL = $GPUIO_LIBCUDA, libcuda.so.1 */
	uint32_t wait;           /* GPUIO_WAIT_*: how the end of a copy is waited for when nothing else can be done */
	uint32_t streams;        /* of each worker, which its copies take in turn; 0 = 1 */
	uint32_t ahead;          /* staging slots of each worker beyond its depth: requests that are being copied; 0 = chosen */
	uint32_t check;          /* GPUIO_GPU_* */
	uint32_t compute;        /* GPUIO_COMPUTE_*; of records */
};

/*
 * Records: I/O that a workload prepared, instead of offsets drawn here. A group is all records that must have ended before a step
 * may go on; its records run concurrently, shared out among the workers as they are free. A chain is a row of groups (ascending)
 * with an emulated consumer, which takes them in order, each once it has ended, and then computes for compute_ns. With prefetch 0
 * group j of a chain may start when the compute of group j - 1 has ended; with P > 0, when that of group j - P has begun. Chains
 * start in the order of their first groups. With GPUIO_COMPUTE_KERNEL one chain may compute, on one GPU.
 */
enum { GPUIO_RECORD_BARRIER = 1 << 0 }; /* waits for all earlier records of its group */

struct gpuio_record {
	uint64_t offset;
	uint32_t length; /* 1..block; 0 for GPUIO_FSYNC */
	uint16_t file;   /* index into fds */
	uint8_t op;      /* GPUIO_READ, _WRITE or _FSYNC; an fsync is a barrier for the records before and behind it */
	uint8_t flags;   /* GPUIO_RECORD_* */
};

struct gpuio_group {
	uint64_t first;      /* its first record; the first of the next group ends it */
	int64_t time_ns;     /* not before this time after the window's start, -1 = as soon as the chain lets it */
	uint64_t compute_ns; /* of what consumes it */
	uint32_t chain;      /* 0..n_chains-1 */
	uint32_t prefetch;   /* of its chain */
};

/* Times after the window's start; UINT64_MAX = it did not come to that. */
struct gpuio_group_result {
	uint64_t due_ns;     /* its chain and its time let it start */
	uint64_t start_ns;   /* its first record was taken up */
	uint64_t end_ns;     /* its last record had ended */
	uint64_t consume_ns; /* its compute began; later than end_ns when the one before still ran. Of a kernel: as the GPU tells it */
	uint64_t compute_ns; /* how long it lasted: as given, or what the kernel took; 0 = it did not come to that */
};

struct gpuio_replay_spec {
	const struct gpuio_record *records; /* NULL = offsets are drawn; all lists must stay until the run is closed */
	uint64_t n_records;
	const struct gpuio_group *groups;   /* each with at least one record, in the order in which they should start */
	uint32_t n_groups, n_chains;
	uint32_t concurrency;               /* chains at work at the same time; 0 = all */
	const int32_t *fds;                 /* opened as spec->fd would be; -1 each for null */
	const uint64_t *seeds;              /* pattern seed of each file */
	uint32_t n_files;
};

struct gpuio_spec {
	const char *engine;
	int fd;                 /* opened by the caller with the flags the cell wants; never closed here; -1 for null */
	uint32_t jobs;          /* worker threads */
	uint32_t depth;         /* requests in flight per worker; 1 for synchronous engines */
	uint32_t block;         /* bytes per request */
	uint32_t submit_batch;  /* requests per submit call, 1..depth */
	uint32_t reap_batch;    /* completions a reap waits for, 1..depth */
	uint32_t order;         /* GPUIO_SEQUENTIAL, _RANDOM, _ZIPF */
	uint32_t read_percent;  /* 0..100; the op of I/O number i is drawn from the seed */
	uint32_t sync;          /* GPUIO_SYNC_* */
	uint32_t sync_every;    /* writes between fdatasync calls, for GPUIO_SYNC_EVERY */
	uint32_t knobs;         /* GPUIO_KNOB_* */
	uint32_t verify;        /* 1 = check every read inside the loop (costs CPU inside the window; recorded) */
	uint64_t region_offset; /* first byte of the region; multiple of block is not needed, alignment is */
	uint64_t region_bytes;  /* floor(region_bytes / block) blocks are used */
	double zipf_theta;      /* > 0; for GPUIO_ZIPF */
	uint64_t seed;
	uint64_t pattern_seed;  /* of the target file */
	const int32_t *cpus;    /* jobs entries, -1 = not pinned; NULL = none pinned */
	uint64_t timeout_ns;    /* of one window; 0 = none */
	const uint32_t *stop;   /* read with relaxed atomics between submissions: non-zero ends the window early; may be
	                         * NULL; may live in memory shared with another process */
	const struct gpuio_clock *clock;
	struct gpuio_pool *pool; /* serves one open run at a time */
	/* io_uring's submission poller: a CPU of its own per worker (SQ_AFF), -1 = wherever; NULL = none chosen */
	const int32_t *sq_cpus;
	uint32_t sq_idle_ms;    /* how long the poller spins without work before it sleeps; 0 = 50 */
	/* Open loop: arrivals[i] = intended start of request i, ns after the window's start, ascending. NULL = closed loop.
	 * A window is then exactly the schedule: ios must equal n_arrivals; request i belongs to worker i % jobs. */
	const uint64_t *arrivals;
	uint64_t n_arrivals;
	uint32_t arrival_wait;  /* GPUIO_WAIT_* */
	const char *library;    /* engine's library to open at run time (liburing for io_uring), NULL = search */
	struct gpuio_gpu_spec gpu;
	struct gpuio_replay_spec replay; /* with it, order, region, arrivals and sync are not used; read_percent only says whether
					  * there are writes (below 100) */
	struct gpuio_spdk *spdk; /* for the engine spdk, which uses no fd; must stay open until the run is closed */
};

/* ---- one window -------------------------------------------------------------------------------------------- */

struct gpuio_worker_result {
	int32_t error;          /* 0 or -errno of the worker itself (not of an I/O) */
	int32_t cpu;            /* CPU it was pinned to, -1 = not pinned */
	int32_t tid;
	int32_t gpu;            /* ordinal, -1 = host memory */
	uint64_t start_ns, end_ns;
	uint64_t ios, bytes;
	uint64_t cpu_ns;        /* CLOCK_THREAD_CPUTIME_ID over the window */
};

struct gpuio_window {
	uint64_t start_ns, end_ns; /* barrier release .. end of the last worker (fsync included when sync = END) */
	uint64_t ios, reads, writes, bytes; /* completed in full; from completion records only */
	uint64_t errors;           /* completions with a negative result */
	uint64_t short_ios;        /* completions with fewer bytes than asked */
	int32_t first_error;       /* -errno of the first failed I/O, 0 = none */
	int32_t first_error_op;    /* GPUIO_READ or GPUIO_WRITE */
	uint64_t first_error_offset; /* UINT64_MAX when the fsync or fdatasync itself failed */
	uint64_t syncs, sync_ns;   /* fsync / fdatasync calls and time spent in them, all workers */
	int32_t stopped;           /* 1 = the stop flag ended it early */
	int32_t stuck_worker;      /* index of a worker that did not return before the deadline, -1 = none */
	/* CPU of this process over the window */
	uint64_t cpu_ns;           /* CLOCK_PROCESS_CPUTIME_ID */
	uint64_t user_ns, system_ns; /* getrusage(RUSAGE_SELF) */
	uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
	/* in-flight, counted at submit and reap, in each worker from its ramp end to its drain start. Where requests end the
	 * counter has stamps of its own, which no latency has in it; where they begin it has, too, unless a queue of 8 or more
	 * is filled one by one, or whole by the call that waits. At depth 1 it is the latencies' sum by definition. Time in fdatasync between
	 * writes is left out; then, and in an open loop, the stretch begins with the first request. */
	double mean_in_flight;     /* integral of all workers / steady_ns; 0 when there was no steady stretch */
	uint64_t steady_ns;        /* from the first worker's ramp end to the last one's drain start */
	uint64_t steady_ios;       /* completions inside the workers' stretches */
	uint64_t steady_lat_ns;    /* sum of their total latencies */
	double steady_rate;        /* steady_ios per second of steady_ns */
	uint64_t max_in_flight;    /* sum over workers of each one's largest in-flight count */
	/* verification inside the loop */
	uint64_t verified, bad;    /* blocks checked; blocks with a bad sector */
	uint64_t first_bad_offset;
	/* open loop */
	uint64_t scheduled;        /* arrivals of this window; 0 = closed loop */
	uint64_t late;             /* sent later than max(200 us, one mean gap) after their intended start; records: groups */
	/* GPU memory reached by copies (an engine without GPUIO_ENGINE_NEEDS_GPU): requests from before submit (writes: before the
	 * copy into host memory) until they are over (reads: their bytes are in GPU memory), with a counter as above, over the
	 * same stretch. in_flight and steady values above are the device's own part. */
	double total_in_flight;
	uint64_t total_ns, total_ios, total_lat_ns;
	double total_rate;
	uint64_t max_total;
	uint64_t copies;           /* calls that copied; fewer than requests when neighbours went together */
	uint64_t copied_bytes;
	/* clock: TSC scale against CLOCK_MONOTONIC over this window */
	double clock_ppm;          /* |measured / used - 1| * 1e6; 0 for CLOCK_MONOTONIC */
};

/* ---- a run: one cell's engine, workers and buffers, over several windows -------------------------------------- */

struct gpuio_run;

/* Starts the workers, opens the engine in each worker's own thread. On failure *run is NULL and why says what. */
int gpuio_open(const struct gpuio_spec *spec, struct gpuio_run **run, struct gpuio_why *why);
/* One timed stretch of exactly `ios` requests (fewer when stopped or failed); the offset stream goes on from window
 * to window. 0; -ETIMEDOUT (window->stuck_worker names it; only close may follow); -errno of a worker. I/O errors and
 * short I/O are counted, not returned; after 64 errors in a worker it ends its share. */
int gpuio_window(struct gpuio_run *run, uint64_t ios, struct gpuio_window *window, struct gpuio_why *why);
/*
 * The same over records: groups first .. first + n - 1, with their times counted from the earliest of them; what they depend on
 * outside is taken for done. results: n entries. Latencies are per record. lag and response are filled when groups have times: lag
 * per timed group, from due to start; response per record, from its group's due time to reaped.
 */
int gpuio_replay(struct gpuio_run *run, uint32_t first, uint32_t n, struct gpuio_group_result *results, struct gpuio_window *window,
		 struct gpuio_why *why);
/* How long a kernel for a compute of `ns` takes while nothing else goes on: the mean of `times`. Between windows; the run must compute
 * by GPUIO_COMPUTE_KERNEL. With `tune` kernels do so much more or less from then on that one would have taken `ns`. */
int gpuio_compute_alone(struct gpuio_run *run, uint64_t ns, uint32_t times, int tune, double *took_ns, struct gpuio_why *why);
/* Histograms of the last window, merged over workers; each holds the I/O that completed in full. slat: before submit ..
 * after submit (empty when not observable: synchronous engines, GPUIO_KNOB_MERGED_WAIT); clat: after submit .. reaped (the
 * same as lat when slat is not observable); lat: before submit .. reaped (always there). */
const struct gpuio_hist *gpuio_slat(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_clat(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_lat(const struct gpuio_run *run);
/* Open loop only (empty otherwise). lag: intended start .. before submit. response: intended start .. reaped, which is what
 * a user waits for; lat stays the service time. */
const struct gpuio_hist *gpuio_lag(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_response(const struct gpuio_run *run);
/* GPU memory reached by copies only (empty otherwise). copy: reads: reaped .. seen in GPU memory; writes: copy asked for .. seen
 * in host memory. total: a request's whole way, see gpuio_window.total_in_flight; response then counts to its end, too. */
const struct gpuio_hist *gpuio_copy(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_total(const struct gpuio_run *run);
void gpuio_worker_results(struct gpuio_run *run, struct gpuio_worker_result *out /* jobs entries */);
/* Final sweep, outside windows: checks what the last window left in destination memory (reads) and reads back what it
 * wrote last (writes, with pread on spec->fd). Counts blocks. */
int gpuio_sweep(struct gpuio_run *run, uint64_t *checked, uint64_t *bad, uint64_t *first_bad, struct gpuio_why *why);
uint32_t gpuio_effective_knobs(const struct gpuio_run *run); /* GPUIO_KNOB_* every worker really has */
void gpuio_knob_reason(const struct gpuio_run *run, struct gpuio_why *why); /* why an asked knob is off; "" = none is */
/* What the engine says of how it was opened, "name=value ..." (worker 0's word); "" = nothing. */
void gpuio_facts(const struct gpuio_run *run, struct gpuio_why *facts);
uint32_t gpuio_slots(const struct gpuio_run *run); /* requests of each worker: its depth, and those that are being copied */
int gpuio_ring_fd(const struct gpuio_run *run, uint32_t worker); /* its io_uring, for /proc/self/fdinfo; -1 = has none */
/* Waits at most 2 s for the workers; -EBUSY when one is stuck in the kernel: the run is leaked on purpose and the
 * process should be given up. */
int gpuio_close(struct gpuio_run *run);

/* Offsets only, for tests and for checks against strace: writes the first n offsets (and ops) of a worker. */
int gpuio_offsets(const struct gpuio_spec *spec, uint32_t worker, uint64_t n, uint64_t *offsets, uint8_t *ops);

/* ---- the yardstick ------------------------------------------------------------------------------------------- */

struct gpuio_bare_result {
	uint64_t ios;
	uint64_t ns;     /* from the first submission to the last completion */
	uint64_t cpu_ns; /* CLOCK_THREAD_CPUTIME_ID of the one thread */
};

/* What a loop costs that measures nothing: reads (engine io_uring) or NOPs (io_uring_nop) as the spec says, with the same
 * library, ring, buffers and offsets as the job loop, but no stamp, histogram, count of kinds or check, for about `ns`
 * nanoseconds in one thread on cpus[0]. Of the spec, jobs must be 1 and read_percent 100. 0; -EIO when a read fails or is short. */
int gpuio_bare_uring(const struct gpuio_spec *spec, uint64_t ns, struct gpuio_bare_result *result, struct gpuio_why *why);

/* ---- CPU clocks ------------------------------------------------------------------------------------------------- */

/* CPU nanoseconds by id, ended threads included: of every process of the host that /proc shows, kernel threads among them; `threads`:
 * of every living thread of this process. How many there are, of which the first `room` are written; or -errno. */
int gpuio_census(int threads, int32_t *ids, uint64_t *ns, uint32_t room);

/* ---- cuFile: the library behind GPUDirect Storage -------------------------------------------------------------- */

/*
 * The driver is opened once per process, before the first run on one of the engines cufile, cufile_batch and cufile_stream, and
 * closed before the process ends: some releases crash at exit otherwise. What is set in the file that CUFILE_ENV_PATH_JSON
 * names is read by the opening alone. Functions here return 0, -errno, or minus a code of the library's own (5001..5099).
 */
struct gpuio_cufile;

#define GPUIO_CUFILE_WORDS 4096 /* of counters; the largest layout known has 640 */

struct gpuio_cufile_info {
	int32_t version;          /* 1000 x major + 10 x minor; 0 = the library does not tell */
	int32_t counts;           /* 1 = its counters are on */
	int32_t properties_error; /* 0, or the code why nothing that follows is known */
	uint32_t nvfs_major, nvfs_minor; /* 0.0 = nvidia-fs is not in use */
	uint32_t status_flags, control_flags, feature_flags; /* as CUfileDrvProps has them */
	uint32_t max_batch;
	uint64_t poll_threshold_bytes, max_direct_bytes, max_cache_bytes, per_buffer_cache_bytes, max_pinned_bytes;
};

/* May never come back (tried: on a kernel without /proc/modules); call it where a deadline ends the process. */
int gpuio_cufile_open(const char *library, struct gpuio_cufile **out, struct gpuio_why *why);
void gpuio_cufile_describe(const struct gpuio_cufile *cufile, struct gpuio_cufile_info *info);
/* Counters of level 1 (the process) or 3 (per GPU), as the library lays them out: GPUIO_CUFILE_WORDS words. */
int gpuio_cufile_counters(const struct gpuio_cufile *cufile, unsigned level, uint64_t *words, struct gpuio_why *why);
/* Would the open file be accepted? */
int gpuio_cufile_accepts(const struct gpuio_cufile *cufile, int fd, struct gpuio_why *why);
/* No run may be open. */
int gpuio_cufile_close(struct gpuio_cufile *cufile);

/* ---- SPDK: a NVMe namespace driven from user space ------------------------------------------------------------- */

/*
 * Opened once per process, before the first run on the engine spdk, and closed after the last one: DPDK below it does not start
 * twice. SPDK's libraries are opened at run time. Functions return 0 or -errno.
 */
struct gpuio_spdk;

struct gpuio_spdk_options {
	const char *library;   /* folder of the libraries, NULL = $GPUIO_SPDK_LIBDIR, else as the system finds them */
	const char *transport; /* as SPDK spells it: "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:4420 subnqn:nqn..." */
	const char *pci;       /* address of the one PCI device that may be touched, NULL = none */
	uint32_t nsid;         /* from 1 */
	uint32_t memory_mib;   /* of memory without huge pages; 0 = huge pages, taken as needed */
};

struct gpuio_spdk_info {
	char model[41], firmware[9];
	uint32_t sector;       /* bytes, a power of two */
	uint32_t max_transfer; /* bytes of one command (MDTS); larger requests go in parts */
	uint64_t bytes;        /* of the namespace */
};

/* May take long when nobody answers; call it where a deadline ends the process. */
int gpuio_spdk_open(const struct gpuio_spdk_options *options, struct gpuio_spdk **out, struct gpuio_why *why);
void gpuio_spdk_describe(const struct gpuio_spdk *spdk, struct gpuio_spdk_info *info);
/* Outside of windows, from any thread: reads or writes whole sectors, or flushes (GPUIO_FSYNC). Each command has 30 s. */
int gpuio_spdk_transfer(struct gpuio_spdk *spdk, int op, void *buf, uint64_t bytes, uint64_t offset, struct gpuio_why *why);
/* No run may be open. */
void gpuio_spdk_close(struct gpuio_spdk *spdk);

/* ---- 3FS: user-space rings ------------------------------------------------------------------------------------- */

/* A request that 3FS failed has the result -(GPUIO_3FS_CODES + code), with a status code of 3FS (1..11023), which is no errno. */
#define GPUIO_3FS_CODES 300000

/* Would the rings of the engine usrbio take files at that path? 0; -ELIBACC without 3FS's client library, -EXDEV where the path is on no
 * 3FS. */
int gpuio_usrbio_accepts(const char *library, const char *path, struct gpuio_why *why);

/* ---- the engine table -------------------------------------------------------------------------------------- */

enum {
	GPUIO_ENGINE_SYNC = 1 << 0,          /* submit returns with the I/O done: depth is 1 */
	GPUIO_ENGINE_NEEDS_GPU = 1 << 1,     /* moves bytes into GPU memory by itself: with a GPU as destination, buf is a device
					      * pointer; other engines get page-locked host memory, which is copied */
	GPUIO_ENGINE_NEEDS_BLOCKDEV = 1 << 2,
	GPUIO_ENGINE_FIXED_BUFFERS = 1 << 3, /* knows GPUIO_KNOB_FIXED_BUFFERS */
	GPUIO_ENGINE_POLLED = 1 << 4,
	GPUIO_ENGINE_NO_FILE = 1 << 5,       /* moves no data (null): nothing to verify */
	GPUIO_ENGINE_NAMESPACE = 1 << 6,     /* works on spec->spdk, not on fd */
};

/* One request. The job loop owns it; an engine reads the upper part and writes `result`. */
struct gpuio_io {
	void *buf;
	uint64_t offset;
	uint32_t length;
	uint32_t index;  /* slot number 0..job->slots-1: index of the registered buffer */
	uint8_t op;      /* GPUIO_READ or GPUIO_WRITE */
	uint16_t file;   /* index of fd among the registered files */
	int32_t fd;
	uint32_t group;  /* the job loop's */
	int64_t result;  /* bytes moved, or -errno */
	void *priv;      /* the engine's own, zero at open */
	uint64_t started, submitted, intended, held, reaped; /* ticks; the job loop's */
};

struct gpuio_job {
	const struct gpuio_spec *spec;
	const struct gpuio_engine *engine;
	uint32_t worker;
	uint32_t effective; /* GPUIO_KNOB_*; set by open */
	struct gpuio_io *ios; /* `slots` requests, buffers set: an engine may register them in open, or put its own in their place */
	uint32_t slots;       /* depth or more; at most depth of them are with the engine at a time */
	struct gpuio_why why; /* open: why it failed, or why a knob is off; submit and reap: why they return -errno */
	void *priv;
	int32_t ring_fd; /* -1; an engine with an io_uring may put its descriptor here */
	int32_t gpu;     /* CUDA ordinal of the destination, -1 = host memory; its primary context is current in this thread */
	struct gpuio_device *device; /* NULL = host memory; see src/gpu.h */
	struct gpuio_why facts; /* open: "name=value ..." that a record should hold, such as which instruction flushes; else "" */
};

struct gpuio_engine {
	const char *name;
	uint32_t abi;   /* GPUIO_ABI */
	uint32_t flags; /* GPUIO_ENGINE_* */
	/* Required. Can this engine work on this machine? 0, or -errno and one sentence with the remedy. No side effects. */
	int (*probe)(const char *library, struct gpuio_why *why);
	/* Required. Called in the worker's own thread; keeps state in job->priv, sets job->effective. */
	int (*open)(struct gpuio_job *job);
	/* Required. Takes the first k of n requests and returns k; 0 = back-pressure, reap first; -errno = broken. */
	int (*submit)(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n);
	/* Required. Stores up to max finished requests in done and returns how many, waiting for at least min (min = 0: must
	 * still make progress, so it enters the kernel). -errno = broken. */
	int (*reap)(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max);
	/* Required. Called in the worker's own thread, also after a failed open. */
	void (*close)(struct gpuio_job *job);
	/* Optional, NULL = the job loop's own way, given behind each. */
	/* Stores up to max finished requests like reap, waiting for one of them at most until deadline_ns (CLOCK_MONOTONIC), and
	 * returns how many, 0 = the deadline came first. Called with requests in flight only. (reap in turn with short sleeps) */
	int (*wait)(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns);
	/* Makes what was written durable, nothing being in flight; whole: metadata too. 0 or -errno. (fsync, fdatasync of fd) */
	int (*sync)(struct gpuio_job *job, uint16_t file, int fd, int whole);
	/* Reads once, outside windows and from another thread than the worker's, for gpuio_sweep. Bytes or -errno. (pread of fd) */
	int64_t (*read_back)(struct gpuio_job *job, int fd, void *buf, uint32_t length, uint64_t offset);
};

unsigned gpuio_engine_count(void);                              /* built in, then loaded */
const struct gpuio_engine *gpuio_engine_at(unsigned i);
const struct gpuio_engine *gpuio_engine_find(const char *name); /* NULL when there is none */
int gpuio_engine_probe(const char *name, const char *library, struct gpuio_why *why);
/* Loads the table `gpuio_engine` from a shared object (GPUIO_ENGINE_PATH). The handle lives as long as the process.
 * -EINVAL when a callback is missing, -EPROTO when the ABI differs, -ENOENT when it cannot be opened. */
int gpuio_engine_load(const char *path, const struct gpuio_engine **out, struct gpuio_why *why);

#endif
