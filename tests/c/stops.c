/* A process that is stopped and continued, or traced for a while, in the middle of each blocking
 * call: without timeouts of the socket, with them, and with a handler for SIGCONT. */
#include "calls.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>

/* --- the one who stops us: a process of its own, made before there are connections --- */

static int to_helper, from_helper;
static char state_of(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    char *end = strrchr(line, ')');
    return end ? end[2] : 0;
}
static void stop_and_continue(pid_t pid) {
    kill(pid, SIGSTOP);
    while (state_of(pid) != 'T')
        nap_us(1000);
    nap_us(20000);
    kill(pid, SIGCONT);
}
static void trace_for_a_while(pid_t pid) {
    int status;
    CHECK(ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0);
    CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
    nap_us(20000);
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
}
static void seize_for_a_while(pid_t pid) {
    int status;
    CHECK(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
    CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
    nap_us(20000);
    CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
}
static void begin_helper(void) {
    int there[2], back[2];
    pid_t parent = getpid();
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (fork() == 0) {
        char how;
        close(there[1]);
        close(back[0]);
        while (read(there[0], &how, 1) == 1) {
            switch (how) {
            case 's': stop_and_continue(parent); break;
            case 't': trace_for_a_while(parent); break;
            default: seize_for_a_while(parent);
            }
            CHECK(write(back[1], &how, 1) == 1);
        }
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    to_helper = there[1];
    from_helper = back[0];
}

/* --- the calls --- */

static atomic_int continued;
static void on_continue(int signal) {
    (void)signal;
    continued++;
}
struct plan {
    const struct call *call;
    char how;
};
/* Stopped while asleep, and later what the call waits for. */
static void stop_and_serve(void *arg) {
    const struct plan *plan = arg;
    char how = plan->how;
    await_sleep(getpid());
    CHECK(write(to_helper, &how, 1) == 1 && read(from_helper, &how, 1) == 1);
    nap_us(30000);
    if (plan->call->out)
        drain(the_pair[1], the_fill);
    else
        send_all(the_pair[1], "12345678", 8);
}

static void set_timeouts(int seconds) {
    struct timeval time = {seconds, 0};
    setsockopt(the_pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(the_pair[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

static void stopped(const struct call *call, char how, int timeout, int handler) {
    struct sigaction action = {.sa_handler = handler ? on_continue : SIG_DFL, .sa_flags = handler > 1 ? SA_RESTART : 0};
    struct plan plan = {call, how};
    struct later later;
    begin_call(call);
    set_timeouts(timeout);
    sigaction(SIGCONT, &action, NULL);
    continued = 0;
    later_begin(&later, 1000, stop_and_serve, &plan);
    long value = call->run();
    int error = errno;
    later_end(&later);
    errno = error;
    printf("%s, %c, timeout %d, handler %d: %s, handled %d\n", call->name, how, timeout, handler, result(value),
           (int)continued);
    set_timeouts(0);
    empty(0);
    empty(1);
    end_call(0);
}

/* A time limit is not made longer, or shorter, by stops. */
static void limits(void) {
    static const struct plan plan = {&calls[0], 's'};
    struct later later;
    for (int kind = 0; kind < 3; kind++) {
        begin_call(&calls[0]);
        struct timeval time = {0, 300000};
        if (kind == 0)
            setsockopt(the_pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
        struct pollfd entry = {the_pair[0], POLLIN, 0};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(the_pair[0], &set);
        long begin = now_us(), value = 0;
        char byte, how = plan.how;
        (void)later;
        switch (kind) {
        case 0: value = recv(the_pair[0], &byte, 1, 0); break;
        case 1:
            CHECK(write(to_helper, &how, 1) == 1);
            value = poll(&entry, 1, 300);
            CHECK(read(from_helper, &how, 1) == 1);
            break;
        default:
            CHECK(write(to_helper, &how, 1) == 1);
            value = select(the_pair[0] + 1, &set, NULL, NULL, &time);
            CHECK(read(from_helper, &how, 1) == 1);
        }
        long took = now_us() - begin;
        printf("limit %d: %s, %s\n", kind, result(value), took < 290000 ? "early" : took > 900000 ? "late" : "in time");
        set_timeouts(0);
        end_call(0);
    }
}

int main(void) {
    patience = 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin_helper();
    for EACH_CALL (call) {
        stopped(call, 's', 0, 0);
        stopped(call, 's', 20, 0);
    }
    static const int some[] = {0, 6, 10, 12, 14, 18};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const struct call *call = &calls[some[i]];
        stopped(call, 's', 0, 1);
        stopped(call, 's', 0, 2);
        stopped(call, 's', 20, 2);
        stopped(call, 't', 0, 0);
        stopped(call, 't', 20, 0);
        stopped(call, 'i', 0, 0);
    }
    limits();
    return 0;
}
