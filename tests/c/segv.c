/* SIGSEGV and SIGBUS are the program's own, though bad pointers of its socket calls are caught: what a
 * handler sees, on which stack and with which mask, what sigaction tells, how a process without a
 * handler ends; and bad pointers are EFAULT meanwhile. */
#include "pair.h"

enum { PAGE = 4096 };
static int the_pair[2];
static char *nothing;
static volatile sig_atomic_t seen, told_code, on_other_stack, was_blocked, others_blocked;
static void *volatile told_address;
static sigjmp_buf back;
static char other_stack[64 << 10];

/* A bad pointer in a call. */
static const char *bad_call(void) {
    long n = send(the_pair[0], nothing, 8, MSG_DONTWAIT);
    int error = errno;
    send_all(the_pair[1], "abcd", 4);
    CHECK(poll(&(struct pollfd){the_pair[0], POLLIN, 0}, 1, 1000) == 1);
    CHECK(n == -1);
    errno = error;
    n = recv(the_pair[0], nothing, 8, 0) == -1 && errno == error ? -1 : 0;
    char got[8];
    CHECK(recv(the_pair[0], got, sizeof got, MSG_DONTWAIT) == 4);
    errno = error;
    return result(n);
}
static void look(int sig, siginfo_t *info, void *context) {
    sigset_t now;
    char here;
    (void)context;
    seen++;
    told_code = info->si_code;
    told_address = info->si_addr;
    on_other_stack = &here >= other_stack && &here < other_stack + sizeof other_stack;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    was_blocked = sigismember(&now, sig);
    others_blocked = sigismember(&now, SIGUSR1);
}
static void jump(int sig, siginfo_t *info, void *context) {
    look(sig, info, context);
    siglongjmp(back, 1);
}
/* The page is made good, and the instruction done again. */
static void repair(int sig, siginfo_t *info, void *context) {
    look(sig, info, context);
    mprotect(nothing, PAGE, PROT_READ | PROT_WRITE);
}
static void plain(int sig) {
    (void)sig;
    seen++;
    mprotect(nothing, PAGE, PROT_READ | PROT_WRITE);
}
static void show(const char *what) {
    printf("%s: %d times, code %d, address %d, other stack %d, blocked %d %d, then %s\n", what, seen, told_code,
           told_address == nothing, on_other_stack, was_blocked, others_blocked, bad_call());
    seen = told_code = on_other_stack = was_blocked = others_blocked = 0;
    told_address = NULL;
}
static void install(void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaddset(&act.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGSEGV, &act, NULL) == 0);
}
static void told(const char *what, int sig) {
    struct sigaction old;
    CHECK(sigaction(sig, NULL, &old) == 0);
    const char *name = old.sa_handler == SIG_DFL ? "default" : old.sa_handler == SIG_IGN ? "ignored" : "a handler";
    if (old.sa_sigaction == look || old.sa_sigaction == jump || old.sa_sigaction == repair || old.sa_handler == plain)
        name = "ours";
    printf("%s: %s, flags %x, mask %d, restorer %d, then %s\n", what, name, (unsigned)old.sa_flags,
           sigismember(&old.sa_mask, SIGUSR1), old.sa_restorer != NULL, sig == SIGSEGV ? bad_call() : "");
}
static void handlers(void) {
    static const struct {
        const char *name;
        int flags;
    } kinds[] = {{"plain", 0}, {"SA_ONSTACK", SA_ONSTACK}, {"SA_NODEFER", SA_NODEFER}, {"SA_RESETHAND", SA_RESETHAND}};
    for (volatile size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        install(jump, kinds[i].flags);
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)nothing = 1;
        show(kinds[i].name);
        told(kinds[i].name, SIGSEGV);
        install(repair, kinds[i].flags);
        *(volatile char *)nothing = 1;
        mprotect(nothing, PAGE, PROT_NONE);
        show(kinds[i].name);
        install(look, kinds[i].flags);
        raise(SIGSEGV);
        show(kinds[i].name);
    }
    signal(SIGSEGV, plain);
    *(volatile char *)nothing = 1;
    mprotect(nothing, PAGE, PROT_NONE);
    show("signal");
    told("signal", SIGSEGV);
    signal(SIGSEGV, SIG_DFL);
    told("set to default", SIGSEGV);
    CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    told("ignored", SIGBUS);
    raise(SIGSEGV);
    CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
}
static void nested(int sig) {
    (void)sig;
    printf("in a handler: %s\n", bad_call());
}

/* How a child ends that has a connection of its own. */
static void ends(const char *what, void (*act)(void), int own) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (own)
            warm_pair(the_pair);
        act();
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
static void e_fault(void) { *(volatile char *)nothing = 1; }
static void e_odd(void) { *(volatile char *)0x4141414141414141 = 1; }
static void e_raise(void) { raise(SIGSEGV); }
static void e_kill(void) {
    kill(getpid(), SIGBUS);
    pause();
}
static void e_bus(void) {
    int file = memfd_create("short", 0);
    CHECK(ftruncate(file, PAGE) == 0);
    ((volatile char *)mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0))[PAGE] = 1;
}
static volatile int forever = 1;
static int deep(volatile char *below) {
    volatile char room[4096];
    room[0] = below ? below[0] : 0;
    return forever ? deep(room) + room[0] : 0;
}
static void e_overflow(void) { deep(NULL); }
static void e_after_bad_call(void) {
    bad_call();
    *(volatile char *)nothing = 1;
}
static void e_ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    *(volatile char *)nothing = 1;
}
static void e_once(void) {
    install(look, SA_RESETHAND);
    *(volatile char *)nothing = 1;
}
static void e_stack(void) {
    signal(SIGSEGV, SIG_DFL);
    e_overflow();
}
static void e_exec(void) {
    execl("/bin/sh", "sh", "-c", "kill -SEGV $$", NULL);
}
static void e_exec_ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    execl("/bin/sh", "sh", "-c", "kill -SEGV $$; exit 3", NULL);
}
static void *blocked_thread(void *arg) {
    (void)arg;
    *(volatile char *)nothing = 1;
    return NULL;
}
static void e_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, blocked_thread, NULL);
    pthread_join(thread, NULL);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (int own = 0; own < 2; own++) {
        if (own) {
            warm_pair(the_pair);
            told("at first", SIGSEGV);
            told("at first", SIGBUS);
            handlers();
            signal(SIGUSR2, nested);
            raise(SIGUSR2);
        }
        ends("a fault", e_fault, own);
        ends("nowhere", e_odd, own);
        ends("raised", e_raise, own);
        ends("killed", e_kill, own);
        ends("SIGBUS", e_bus, own);
        ends("overflow", e_overflow, own);
        ends("overflow, default", e_stack, own);
        ends("ignored", e_ignored, own);
        ends("once", e_once, own);
        ends("exec", e_exec, own);
        ends("exec, ignored", e_exec_ignored, own);
        ends("in a thread", e_thread, own);
        if (own)
            ends("after a bad call", e_after_bad_call, own);
    }
    ping_pong(the_pair, 300);
    return 0;
}
