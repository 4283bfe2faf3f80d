// A helper in a sandbox that is asked over a socket pair, as browsers and sshd have them: "strict" has the four system calls of
// seccomp's first mode, "filter" those of a list, and any other ends the helper by SIGSYS. Prints what it answered.

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 400, LARGEST = 30000 };

static void check(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(1);
    }
}

static void read_all(int fd, char *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = read(fd, data + done, length - done);
        check(count > 0, "read");
        done += count;
    }
}

static void write_all(int fd, const char *data, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = write(fd, data + done, length - done);
        check(count > 0, "write");
        done += count;
    }
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void lock_in(const char *how) {
    if (strcmp(how, "none") == 0)
        return;
    if (strcmp(how, "strict") == 0) {
        check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "strict");
        return;
    }
    struct sock_filter list[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof list / sizeof *list, list};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
}

// Answers with the same bytes, each one more, until it is asked for nothing.
static void serve(int fd, int before, const char *how) {
    static char data[LARGEST];
    for (int round = 0;; round++) {
        unsigned length;
        if (round == before)
            lock_in(how);
        read_all(fd, (char *)&length, sizeof length);
        if (length == 0)
            syscall(SYS_exit, 0);
        read_all(fd, data, length);
        for (unsigned at = 0; at < length; at++)
            data[at]++;
        write_all(fd, data, length);
    }
}

// The helper is locked in at once, or when the connection has been used for a while.
static void ask(const char *how, int before) {
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        close(pair[0]);
        serve(pair[1], before, how);
    }
    close(pair[1]);
    static char data[LARGEST], back[LARGEST];
    unsigned long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned length = 1 + (round * 7919u) % LARGEST;
        memset(data, round, length);
        write_all(pair[0], (char *)&length, sizeof length);
        write_all(pair[0], data, length);
        read_all(pair[0], back, length);
        for (unsigned at = 0; at < length; at++)
            check(back[at] == (char)(data[at] + 1), "another byte");
        sum += length;
    }
    unsigned end = 0;
    write_all(pair[0], (char *)&end, sizeof end);
    int status;
    check(waitpid(child, &status, 0) == child, "waitpid");
    printf("%s after %d: %lu bytes, status %x\n", how, before, sum, status);
    close(pair[0]);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const char *ways[] = {"none", "strict", "filter"};
    for (int way = 0; way < 3; way++)
        for (int before = 0; before <= 200; before += 100)
            ask(ways[way], before);
    return 0;
}
