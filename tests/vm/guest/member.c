// SPDX-License-Identifier: MIT OR Apache-2.0
/* Who may open the device: what the udev rule (kmod/70-ulnic.rules) says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"
#include "device.h"

#define NOBODY 65534

void member(char **arguments)
{
	gid_t group = argument(arguments, 0);
	int wanted = argument(arguments, 1), error;

	expect(setgroups(0, NULL) == 0 && setgid(group) == 0 && setuid(NOBODY) == 0);
	error = open("/dev/ulnic0", O_RDWR) < 0 ? errno : 0;
	if (error != wanted)
		fail("open: %s", strerror(error));
}
