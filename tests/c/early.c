/* Handlers that were installed before any library's constructor ran: by the program itself, through
 * libc and past it, from its preinit array. */
#include "calls.h"

static pthread_t main_thread;
static atomic_int handled[65];
static sigjmp_buf place;
static atomic_int jumps;

static void count(int signal) {
    handled[signal]++;
    if (jumps) {
        jumps = 0;
        siglongjmp(place, 1);
    }
}

/* The kernel's own structure, and the return from a handler that it wants with it. */
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};
void restorer(void);
__asm__(".globl restorer\nrestorer: mov $15, %eax\nsyscall\n");
enum { RESTORER = 0x04000000 };
static long past_libc(int signal, const struct kernel_action *action) {
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(SYS_rt_sigaction), "D"(signal), "S"(action), "d"(NULL), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static int installed;
static void before_all(void) {
    struct sigaction action = {.sa_handler = count};
    struct kernel_action raw = {count, RESTORER | SA_RESTART, restorer, 0};
    installed += sigaction(SIGUSR1, &action, NULL) == 0;
    installed += past_libc(SIGUSR2, &raw) == 0;
    raw.flags = RESTORER;
    installed += past_libc(SIGWINCH, &raw) == 0;
    installed += signal(SIGHUP, count) != SIG_ERR;
    raw.handler = SIG_IGN;
    installed += past_libc(SIGQUIT, &raw) == 0;
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_all;

struct plan {
    const struct call *call;
    int signal;
};
static void kick_and_serve(void *arg) {
    const struct plan *plan = arg;
    await_sleep(getpid());
    pthread_kill(main_thread, plan->signal);
    nap_us(20000);
    if (plan->call->out)
        drain(the_pair[1], the_fill);
    else
        send_all(the_pair[1], "12345678", 8);
}
static void one(const struct call *call, int signal, int jump) {
    struct plan plan = {call, signal};
    struct later later;
    volatile long value = 0;
    begin_call(call);
    handled[signal] = 0;
    later_begin(&later, 1000, kick_and_serve, &plan);
    jumps = jump;
    int error = 0;
    if (sigsetjmp(place, 1) == 0) {
        value = call->run();
        error = errno;
    } else
        value = 1000;
    jumps = 0;
    later_end(&later);
    errno = error;
    printf("%s, signal %d: %s, handled %d\n", call->name, signal, result(value), (int)handled[signal]);
    empty(0);
    empty(1);
    end_call(0);
}

int main(void) {
    static const int some[] = {0, 4, 6, 10, 12, 14, 18}, signals[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGHUP, SIGQUIT};
    struct sigaction now;
    main_thread = pthread_self();
    patience = 1000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("installed %d\n", installed);
    for (int k = 0; k < 5; k++) {
        sigaction(signals[k], NULL, &now);
        printf("signal %d: %d, flags %x\n", signals[k], now.sa_handler == count, now.sa_flags & ~RESTORER);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (int k = 0; k < 5; k++)
            one(&calls[some[i]], signals[k], 0);
    for (int k = 0; k < 4; k++)
        one(&calls[0], signals[k], 1);
    return 0;
}
