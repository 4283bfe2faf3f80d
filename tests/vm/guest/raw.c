// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "raw.h"

static void read_text(const char *folder, const char *name, char *text, size_t size)
{
	char path[512];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY);
	length = fd < 0 ? 0 : read(fd, text, size - 1);
	text[length < 0 ? 0 : length] = 0;
	close(fd);
}

static void find(char *folder, size_t size)
{
	char vendor[16], device[16];
	glob_t all;
	size_t at;

	expect(glob("/sys/bus/pci/devices/*", 0, NULL, &all) == 0);
	for (at = 0; at < all.gl_pathc; at++) {
		read_text(all.gl_pathv[at], "vendor", vendor, sizeof(vendor));
		read_text(all.gl_pathv[at], "device", device, sizeof(device));
		if (strtoul(vendor, NULL, 0) == 0x1af4 && strtoul(device, NULL, 0) == 0x1110) {
			snprintf(folder, size, "%s", all.gl_pathv[at]);
			return;
		}
	}
	fail("no ivshmem device");
}

/* A mapping takes memory for its tables at once: of a vast region the beginning will do. */
#define MOST (1ULL << 30)

static void *bar(const char *folder, const char *name, size_t *length, uint64_t *size)
{
	char path[512];
	struct stat status;
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR);
	expect(fd >= 0 && fstat(fd, &status) == 0);
	*size = status.st_size;
	*length = *size < MOST ? *size : MOST;
	at = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	expect(at != MAP_FAILED);
	return at;
}

struct raw raw_open(void)
{
	char folder[300], path[512];
	struct raw raw;
	size_t length;
	uint64_t size;
	int fd;

	find(folder, sizeof(folder));
	snprintf(path, sizeof(path), "%s/enable", folder);
	fd = open(path, O_WRONLY);
	expect(fd >= 0 && write(fd, "1", 1) == 1);
	close(fd);
	raw.memory = bar(folder, "resource2", &raw.length, &raw.size);
	raw.registers = bar(folder, "resource0", &length, &size);
	return raw;
}
