/* Programs that lock their memory, as realtime programs do, with connections before and after:
 * what it costs, what may still be mapped, as root and within a limit. */
#include "calls.h"
#include <grp.h>
#include <sys/mman.h>

/* A line of /proc/self/status, in MiB. */
static long status(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name) + 1) / 1024;
    fclose(file);
    return value;
}
/* A mapping of the program's: is it there, and filled? */
static void map(size_t size) {
    unsigned char state = 0;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        printf(" %s", strerrorname_np(errno));
        return;
    }
    CHECK(mincore(at + size - 4096, 4096, &state) == 0);
    printf(" %s", state & 1 ? "filled" : "empty");
    munmap(at, size);
}
static void talk(void) {
    int fresh[2];
    warm_pair(fresh);
    ping_pong(the_pair, 200);
    ping_pong(fresh, 200);
    close_pair(fresh);
}
static void locked(const char *name, int flags) {
    printf("%s, flags %d: %s", name, flags, result(mlockall(flags)));
    printf(", locked %d, resident %s", status("VmLck:") > 0, status("VmRSS:") < 150 ? "little" : "much");
    map(1 << 20);
    map(256 << 20);
    talk();
    printf(", resident %s\n", status("VmRSS:") < 150 ? "little" : "much");
    fflush(stdout);
}

static const int all_flags[][2] = {
    {MCL_CURRENT, 0},
    {MCL_FUTURE, 0},
    {MCL_CURRENT | MCL_FUTURE, 0},
    {MCL_CURRENT | MCL_ONFAULT, 0},
    {MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT, 0},
    {MCL_FUTURE, MCL_CURRENT},
    {MCL_CURRENT | MCL_FUTURE, MCL_FUTURE | MCL_ONFAULT},
    {8 | MCL_CURRENT, 0},
    {MCL_ONFAULT, 0},
};

/* Each in a process of its own, if it may have such a limit (in MiB; -1 is none). User 0 stays root. */
static void one(const char *name, int user, long limit, const int flags[2], int early) {
    struct rlimit most;
    int status;
    getrlimit(RLIMIT_MEMLOCK, &most);
    if (most.rlim_max != RLIM_INFINITY && (limit < 0 || (rlim_t)limit << 20 > most.rlim_max))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit memory = {limit << 20, limit << 20};
        if (limit < 0)
            memory.rlim_cur = memory.rlim_max = RLIM_INFINITY;
        CHECK(setrlimit(RLIMIT_MEMLOCK, &memory) == 0);
        if (user)
            CHECK(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0);
        if (early)
            CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
        warm_pair(the_pair);
        locked(name, flags[0]);
        if (flags[1])
            locked(name, flags[1]);
        ping_pong(the_pair, 100);
        close_pair(the_pair);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (status)
        printf("%s: status %x\n", name, status);
}

int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (size_t i = 0; i < sizeof all_flags / sizeof *all_flags; i++) {
        one("root", 0, 8, all_flags[i], 0);
        one("root without limit", 0, -1, all_flags[i], 0);
        one("user within a limit", 54321, 8, all_flags[i], 0);
        one("user beyond the limit", 54321, 1, all_flags[i], 0);
        one("user without any", 54321, 0, all_flags[i], 0);
    }
    one("root, locked before", 0, 8, all_flags[0], 1);
    /* The parent talks too: of it there is a report. */
    warm_pair(the_pair);
    end_call(0);
    fflush(stdout);
    return 0;
}
