// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The cases that run inside a virtual machine: vmtest CASE ARGUMENTS...
 * Prints what it found; exit status 0 if all was as it should be.
 */
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "device.h"

static const struct {
	const char *name;
	void (*run)(char **arguments);
} cases[] = {
	{ "member", member },
	{ "misuse", misuse },
	{ "isolation", isolation },
	{ "reuse", reuse },
	{ "fuzz", fuzz },
	{ "serve", serve },
	{ "talk", talk },
	{ "hold", hold },
	{ "unbound", unbound },
	{ "orphan", orphan },
	{ "scribble", scribble },
	{ "forge", forge },
	{ "deceived", deceived },
	{ "renew", renew },
	{ "anew", anew },
	{ "stale", stale },
};

int main(int argc, char **argv)
{
	size_t at;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (at = 0; argc > 1 && at < sizeof(cases) / sizeof(cases[0]); at++) {
		if (!strcmp(argv[1], cases[at].name)) {
			cases[at].run(argv + 2);
			printf("%s: ok\n", argv[1]);
			return 0;
		}
	}
	fail("no such case");
}
