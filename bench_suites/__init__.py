"""The suites a user runs: each test is one workload, measured over every data path this machine has."""
