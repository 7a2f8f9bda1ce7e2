/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of gpuio.h. "..." lets the compiler fill in numbers and fields that Python does not need to name. */

#define GPUIO_ABI ...
#define GPUIO_HIST_BINS ...
#define GPUIO_SECTOR ...

enum { GPUIO_CLOCK_MONOTONIC, GPUIO_CLOCK_TSC };
enum { GPUIO_READ, GPUIO_WRITE, GPUIO_FSYNC };
enum { GPUIO_SEQUENTIAL, GPUIO_RANDOM, GPUIO_ZIPF };
enum { GPUIO_SYNC_NONE, GPUIO_SYNC_END, GPUIO_SYNC_EVERY };
enum { GPUIO_WAIT_SLEEP, GPUIO_WAIT_SPIN };
enum { GPUIO_GPU_KERNEL, GPUIO_GPU_COPY };
enum { GPUIO_COMPUTE_TIMER, GPUIO_COMPUTE_KERNEL };

#define GPUIO_KNOB_FIXED_BUFFERS ...
#define GPUIO_KNOB_REGISTERED_FILES ...
#define GPUIO_KNOB_SINGLE_ISSUER ...
#define GPUIO_KNOB_MERGED_WAIT ...
#define GPUIO_KNOB_REQUIRE ...

#define GPUIO_ENGINE_SYNC ...
#define GPUIO_ENGINE_NEEDS_GPU ...
#define GPUIO_ENGINE_NEEDS_BLOCKDEV ...
#define GPUIO_ENGINE_FIXED_BUFFERS ...
#define GPUIO_ENGINE_POLLED ...
#define GPUIO_ENGINE_NO_FILE ...
#define GPUIO_ENGINE_NAMESPACE ...

struct gpuio_why {
	char text[...];
};

struct gpuio_hist {
	uint64_t count;
	uint64_t overflow;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t bins[...];
};

void gpuio_hist_reset(struct gpuio_hist *h);
void gpuio_hist_add(struct gpuio_hist *h, uint64_t ns);
void gpuio_hist_merge(struct gpuio_hist *into, const struct gpuio_hist *from);
unsigned gpuio_hist_bin(uint64_t ns);
uint64_t gpuio_hist_bin_low(unsigned bin);
uint64_t gpuio_hist_bin_width(unsigned bin);
int gpuio_hist_quantile(const struct gpuio_hist *h, double q, uint64_t *ns);

struct gpuio_clock {
	int source;
	double ns_per_tick;
	double cost_ns;
	uint64_t resolution_ns;
	...;
};

int gpuio_clock_init(struct gpuio_clock *clock, int force, struct gpuio_why *why);

struct gpuio_pool;
struct gpuio_pool_info {
	void *base;
	uint64_t bytes;
	uint64_t huge_bytes;
	uint64_t map_ns;
	uint64_t pinned_bytes;
	uint64_t pin_ns;
	...;
};

struct gpuio_pool *gpuio_pool_new(void);
int gpuio_pool_reserve(struct gpuio_pool *pool, uint64_t bytes, struct gpuio_why *why);
void gpuio_pool_describe(const struct gpuio_pool *pool, struct gpuio_pool_info *info);
void gpuio_pool_free(struct gpuio_pool *pool);

void gpuio_pattern_fill(void *buf, uint64_t bytes, uint64_t offset, uint64_t seed);
uint64_t gpuio_pattern_check(const void *buf, uint64_t bytes, uint64_t offset, uint64_t seed, uint64_t *first_bad);

struct gpuio_gpu_info {
	int32_t ordinal;
	char name[128];
	unsigned char uuid[16];
	char bus_id[32];
	uint64_t bytes;
	int32_t capability_major, capability_minor;
	int32_t copy_engines;
	int32_t driver_version;
	...;
};

int gpuio_gpu_count(const char *library, int32_t *count, struct gpuio_why *why);
int gpuio_gpu_describe(const char *library, int32_t ordinal, struct gpuio_gpu_info *info, struct gpuio_why *why);

struct gpuio_memory;

int gpuio_memory_new(const char *library, int32_t ordinal, uint64_t bytes, struct gpuio_memory **out, struct gpuio_why *why);
uint64_t gpuio_memory_address(const struct gpuio_memory *memory);
int gpuio_memory_read(struct gpuio_memory *memory, uint64_t place, void *to, uint64_t bytes, struct gpuio_why *why);
int gpuio_memory_write(struct gpuio_memory *memory, uint64_t place, const void *from, uint64_t bytes, struct gpuio_why *why);
void gpuio_memory_free(struct gpuio_memory *memory);

struct gpuio_gpu_spec {
	const int32_t *ordinals;
	const char *library;
	uint32_t wait;
	uint32_t streams;
	uint32_t ahead;
	uint32_t check;
	uint32_t compute;
	...;
};

#define GPUIO_RECORD_BARRIER ...

struct gpuio_record {
	uint64_t offset;
	uint32_t length;
	uint16_t file;
	uint8_t op;
	uint8_t flags;
};

struct gpuio_group {
	uint64_t first;
	int64_t time_ns;
	uint64_t compute_ns;
	uint32_t chain;
	uint32_t prefetch;
};

struct gpuio_group_result {
	uint64_t due_ns;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t consume_ns;
	uint64_t compute_ns;
};

struct gpuio_replay_spec {
	const struct gpuio_record *records;
	uint64_t n_records;
	const struct gpuio_group *groups;
	uint32_t n_groups, n_chains;
	uint32_t concurrency;
	const int32_t *fds;
	const uint64_t *seeds;
	uint32_t n_files;
	...;
};

int gpuio_persist(void *to, const void *from, uint64_t bytes);

struct gpuio_spdk;

struct gpuio_spec {
	const char *engine;
	int fd;
	uint32_t jobs;
	uint32_t depth;
	uint32_t block;
	uint32_t submit_batch;
	uint32_t reap_batch;
	uint32_t order;
	uint32_t read_percent;
	uint32_t sync;
	uint32_t sync_every;
	uint32_t knobs;
	uint32_t verify;
	uint64_t region_offset;
	uint64_t region_bytes;
	double zipf_theta;
	uint64_t seed;
	uint64_t pattern_seed;
	const int32_t *cpus;
	uint64_t timeout_ns;
	const uint32_t *stop;
	const struct gpuio_clock *clock;
	struct gpuio_pool *pool;
	const int32_t *sq_cpus;
	uint32_t sq_idle_ms;
	const uint64_t *arrivals;
	uint64_t n_arrivals;
	uint32_t arrival_wait;
	const char *library;
	struct gpuio_gpu_spec gpu;
	struct gpuio_replay_spec replay;
	struct gpuio_spdk *spdk;
	...;
};

struct gpuio_worker_result {
	int32_t error;
	int32_t cpu;
	int32_t tid;
	int32_t gpu;
	uint64_t start_ns, end_ns;
	uint64_t ios, bytes;
	uint64_t cpu_ns;
	...;
};

struct gpuio_window {
	uint64_t start_ns, end_ns;
	uint64_t ios, reads, writes, bytes;
	uint64_t errors;
	uint64_t short_ios;
	int32_t first_error;
	int32_t first_error_op;
	uint64_t first_error_offset;
	uint64_t syncs, sync_ns;
	int32_t stopped;
	int32_t stuck_worker;
	uint64_t cpu_ns;
	uint64_t user_ns, system_ns;
	uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
	double mean_in_flight;
	uint64_t steady_ns;
	uint64_t steady_ios;
	uint64_t steady_lat_ns;
	double steady_rate;
	uint64_t max_in_flight;
	uint64_t verified, bad;
	uint64_t first_bad_offset;
	uint64_t scheduled;
	uint64_t late;
	double total_in_flight;
	uint64_t total_ns, total_ios, total_lat_ns;
	double total_rate;
	uint64_t max_total;
	uint64_t copies;
	uint64_t copied_bytes;
	double clock_ppm;
	...;
};

struct gpuio_run;

int gpuio_open(const struct gpuio_spec *spec, struct gpuio_run **run, struct gpuio_why *why);
int gpuio_window(struct gpuio_run *run, uint64_t ios, struct gpuio_window *window, struct gpuio_why *why);
int gpuio_replay(struct gpuio_run *run, uint32_t first, uint32_t n, struct gpuio_group_result *results, struct gpuio_window *window,
		 struct gpuio_why *why);
int gpuio_compute_alone(struct gpuio_run *run, uint64_t ns, uint32_t times, int tune, double *took_ns, struct gpuio_why *why);
const struct gpuio_hist *gpuio_slat(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_clat(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_lat(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_lag(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_response(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_copy(const struct gpuio_run *run);
const struct gpuio_hist *gpuio_total(const struct gpuio_run *run);
void gpuio_worker_results(struct gpuio_run *run, struct gpuio_worker_result *out);
int gpuio_sweep(struct gpuio_run *run, uint64_t *checked, uint64_t *bad, uint64_t *first_bad, struct gpuio_why *why);
uint32_t gpuio_effective_knobs(const struct gpuio_run *run);
void gpuio_knob_reason(const struct gpuio_run *run, struct gpuio_why *why);
void gpuio_facts(const struct gpuio_run *run, struct gpuio_why *facts);
uint32_t gpuio_slots(const struct gpuio_run *run);
int gpuio_ring_fd(const struct gpuio_run *run, uint32_t worker);
int gpuio_close(struct gpuio_run *run);
int gpuio_offsets(const struct gpuio_spec *spec, uint32_t worker, uint64_t n, uint64_t *offsets, uint8_t *ops);

struct gpuio_bare_result {
	uint64_t ios;
	uint64_t ns;
	uint64_t cpu_ns;
};

int gpuio_bare_uring(const struct gpuio_spec *spec, uint64_t ns, struct gpuio_bare_result *result, struct gpuio_why *why);

int gpuio_census(int threads, int32_t *ids, uint64_t *ns, uint32_t room);

struct gpuio_cufile;

#define GPUIO_CUFILE_WORDS ...

struct gpuio_cufile_info {
	int32_t version;
	int32_t counts;
	int32_t properties_error;
	uint32_t nvfs_major, nvfs_minor;
	uint32_t status_flags, control_flags, feature_flags;
	uint32_t max_batch;
	uint64_t poll_threshold_bytes, max_direct_bytes, max_cache_bytes, per_buffer_cache_bytes, max_pinned_bytes;
	...;
};

int gpuio_cufile_open(const char *library, struct gpuio_cufile **out, struct gpuio_why *why);
void gpuio_cufile_describe(const struct gpuio_cufile *cufile, struct gpuio_cufile_info *info);
int gpuio_cufile_counters(const struct gpuio_cufile *cufile, unsigned level, uint64_t *words, struct gpuio_why *why);
int gpuio_cufile_accepts(const struct gpuio_cufile *cufile, int fd, struct gpuio_why *why);
int gpuio_cufile_close(struct gpuio_cufile *cufile);

struct gpuio_spdk_options {
	const char *library;
	const char *transport;
	const char *pci;
	uint32_t nsid;
	uint32_t memory_mib;
	...;
};

struct gpuio_spdk_info {
	char model[...], firmware[...];
	uint32_t sector;
	uint32_t max_transfer;
	uint64_t bytes;
	...;
};

int gpuio_spdk_open(const struct gpuio_spdk_options *options, struct gpuio_spdk **out, struct gpuio_why *why);
void gpuio_spdk_describe(const struct gpuio_spdk *spdk, struct gpuio_spdk_info *info);
int gpuio_spdk_transfer(struct gpuio_spdk *spdk, int op, void *buf, uint64_t bytes, uint64_t offset, struct gpuio_why *why);
void gpuio_spdk_close(struct gpuio_spdk *spdk);

int gpuio_usrbio_accepts(const char *library, const char *path, struct gpuio_why *why);

struct gpuio_engine {
	const char *name;
	uint32_t abi;
	uint32_t flags;
	...;
};

unsigned gpuio_engine_count(void);
const struct gpuio_engine *gpuio_engine_at(unsigned i);
const struct gpuio_engine *gpuio_engine_find(const char *name);
int gpuio_engine_probe(const char *name, const char *library, struct gpuio_why *why);
int gpuio_engine_load(const char *path, const struct gpuio_engine **out, struct gpuio_why *why);
