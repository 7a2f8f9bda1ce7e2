/* SPDX-License-Identifier: Apache-2.0 */
/* libspdk_env_dpdk.c - stands in for libspdk_env_dpdk.so, which must be there; what it would export is in libspdk_nvme.c. */
int standin_spdk_env;
