/* SPDX-License-Identifier: Apache-2.0 */
/* standin_spdk_env.c - stands in for libspdk_env_dpdk.so, which must be there; what it would export is in standin_spdk.c. */
int standin_spdk_env;
