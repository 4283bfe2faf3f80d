/* Somebody truncates every file of the run directory, again and again, while the program talks over rings, opens
 * connections and passes them on: it goes on, whatever it does with SIGBUS. */
#include "pair.h"
#include <sys/stat.h>

static void cut(const char *folder, const char *name) {
    static const off_t sizes[] = {0, 4096, 1 << 22, 1};
    static unsigned turn;
    char path[512];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    /* Its maker may have removed it meanwhile. */
    if (lstat(path, &stat) == 0 && S_ISREG(stat.st_mode) && truncate(path, sizes[turn++ % 4]) < 0)
        CHECK(errno == ENOENT);
}

static void cut_all(void) {
    const char *name = getenv("ULSOCK_RUN_DIR");
    DIR *folder = name ? opendir(name) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        cut(name, entry->d_name);
    if (folder)
        closedir(folder);
}

/* There and back by a Unix socket; then the program has it twice. */
static int passed(int fd) {
    int unix_pair[2];
    char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair) == 0);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(unix_pair[0], &message, 0) == 1);
    CHECK(recvmsg(unix_pair[1], &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    close(unix_pair[0]);
    close(unix_pair[1]);
    return fd;
}

static void talk(const char *when) {
    int old[2];
    warm_pair(old);
    for (int round = 0; round < 20; round++) {
        int new[2];
        cut_all();
        ping_pong(old, 50);
        warm_pair(new);
        cut_all();
        int copy = passed(new[0]);
        close(new[0]);
        new[0] = copy;
        ping_pong(new, 10);
        close_pair(new);
    }
    close_pair(old);
    printf("%s: went on\n", when);
}

static void *in_thread(void *when) {
    talk(when);
    return NULL;
}

static void blocked(void) {
    sigset_t set;
    pthread_t thread;
    sigfillset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    CHECK(pthread_create(&thread, NULL, in_thread, "blocked") == 0);
    pthread_join(thread, NULL);
    talk("blocked in all");
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static sigjmp_buf back;
static void handler(int number) {
    printf("signal %d\n", number);
    siglongjmp(back, 1);
}

/* The program's own fault is still its own. */
static void own_fault(void) {
    FILE *file = tmpfile();
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    CHECK(page != MAP_FAILED);
    if (sigsetjmp(back, 1) == 0)
        printf("read %d\n", *page);
    fclose(file);
}

static void in_child(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        talk("child");
        fflush(stdout);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    talk("default");
    in_child();
    blocked();
    signal(SIGBUS, handler);
    talk("handled");
    own_fault();
    signal(SIGBUS, SIG_IGN);
    talk("ignored");
    in_child();
    return 0;
}
