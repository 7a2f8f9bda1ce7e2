"""Leaves out, unless they are named, suites that take long, write much, or need a file of yours."""

# pytest heeds this for what it finds, not for what the command line names: pytest bench_suites/mlperf runs it.
collect_ignore = [
    "mlperf",
    "sweep",
    "traces",
    "reference",
    "pretrain/test_dataset.py",
    "pretrain/test_checkpoint.py",
    "finetune/test_adapters.py",
    "finetune/test_base_model.py",
    "finetune/test_optimizer.py",
    "inference/test_kv_cache.py",
    "inference/test_loading_strategies.py",
    "inference/test_kv_granularity.py",
    "inference/test_streaming.py",
    "inference/test_vector_search.py",
    "inference/test_mixes.py",
]
