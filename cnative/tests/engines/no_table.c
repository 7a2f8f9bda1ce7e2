/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no engine. */
int not_an_engine(void);

int not_an_engine(void)
{
	return 0;
}
