"""The workloads that MLPerf Storage defines; results are not MLPerf submissions."""
