/* The heir of a connection, for every kind of program that ulsock cannot follow: static, another libc,
 * setuid. It does what `heir taker` does, see there:
 *     taker fd=N at=N left=N answered=N done=FILE more=N */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE = 64 };

static const char *value(int argc, char **argv, const char *key)
{
    for (int i = 1; i < argc; i++) {
        size_t length = strlen(key);
        if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            return argv[i] + length + 1;
    }
    fprintf(stderr, "argument %s=VALUE is missing\n", key);
    exit(2);
}

/* As in tests/src/pattern.rs. */
static unsigned char pattern(uint64_t direction, uint64_t at)
{
    uint64_t x = (at / 8 | direction << 56) * 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return (unsigned char)(x >> at % 8 * 8);
}

static void read_questions(int fd, uint64_t at, uint64_t left)
{
    unsigned char bytes[4096];

    while (left > 0) {
        ssize_t n = read(fd, bytes, left < sizeof bytes ? left : sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fprintf(stderr, "%llu bytes are missing: %s\n", (unsigned long long)left,
                    n < 0 ? strerror(errno) : "the end");
            exit(1);
        }
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != pattern(0, at + i)) {
                fprintf(stderr, "wrong byte at %llu\n", (unsigned long long)(at + i));
                exit(1);
            }
        }
        at += n;
        left -= n;
    }
}

static void answer(int fd, uint64_t number)
{
    unsigned char bytes[MESSAGE];

    for (int i = 0; i < MESSAGE; i++)
        bytes[i] = pattern(1, number * MESSAGE + i);
    if (write(fd, bytes, MESSAGE) != MESSAGE) {
        perror("an answer");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    int fd = atoi(value(argc, argv, "fd"));
    uint64_t at = strtoull(value(argc, argv, "at"), NULL, 10);
    uint64_t left = strtoull(value(argc, argv, "left"), NULL, 10);
    uint64_t answered = strtoull(value(argc, argv, "answered"), NULL, 10);
    uint64_t more = strtoull(value(argc, argv, "more"), NULL, 10);
    char end;

    read_questions(fd, at, left);
    FILE *done = fopen(value(argc, argv, "done"), "w");
    if (!done || fclose(done) != 0) {
        perror("the file");
        return 1;
    }
    /* What kind of program it was, for the test. */
    printf("taken by %d\n", (int)geteuid());
    fflush(stdout);
    for (uint64_t number = 0; number < more; number++) {
        answer(fd, answered + number);
        read_questions(fd, at + left + number * MESSAGE, MESSAGE);
    }
    if (read(fd, &end, 1) != 0) {
        perror("the end");
        return 1;
    }
    return 0;
}
