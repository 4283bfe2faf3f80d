/* Somebody truncates every file of the run directory, writes noise over it, removes it or puts something else there, again
 * and again, while the program talks over rings, opens connections and passes them on: it goes on, whatever it does with
 * SIGBUS. */
#include "pair.h"
#include <sys/stat.h>

enum { CUT, NOISE, SWAP, REMOVE };

static void cut(const char *path, unsigned turn) {
    static const off_t sizes[] = {0, 4096, 1 << 22, 1};
    /* Its maker may have removed it meanwhile. */
    if (truncate(path, sizes[turn % 4]) < 0)
        CHECK(errno == ENOENT);
}

/* Over whatever was there, or small numbers only. */
static void fill_with_noise(const char *path, unsigned turn) {
    uint64_t noise[8192];
    int fd = open(path, O_WRONLY | O_NONBLOCK);
    for (int i = 0; i < 8192; i++)
        noise[i] = (uint64_t)(turn % 2 ? random() : random() % 4) << (turn % 3 ? 0 : 32) | random() % 4;
    for (off_t at = 0; at < 1 << 20 && fd >= 0; at += sizeof noise)
        CHECK(pwrite(fd, noise, sizeof noise, at) == sizeof noise);
    close(fd);
}

/* Something else is there instead. */
static void swap(const char *path, unsigned turn) {
    unlink(path);
    if (turn % 3 == 0)
        mkdir(path, 0755);
    if (turn % 3 == 1)
        mkfifo(path, 0644);
    if (turn % 3 == 2 && symlink("/dev/null", path) < 0)
        CHECK(errno == EEXIST);
}

static void spoil(const char *folder, const char *name, unsigned way) {
    static unsigned turn;
    char path[512];
    struct stat stat;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (lstat(path, &stat) < 0 || name[0] == '.')
        return;
    if (S_ISDIR(stat.st_mode))
        rmdir(path);
    else if (way == REMOVE || !S_ISREG(stat.st_mode))
        unlink(path);
    else if (way == CUT)
        cut(path, turn++);
    else if (way == NOISE)
        fill_with_noise(path, turn++);
    else
        swap(path, turn++);
}

static void spoil_all(void) {
    static unsigned turn;
    const char *name = getenv("ULSOCK_RUN_DIR");
    DIR *folder = name ? opendir(name) : NULL;
    /* Mostly in ways that leave the tables in use. */
    unsigned way = turn % 2 + (turn % 16 < 12 ? CUT : SWAP);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        spoil(name, entry->d_name, way);
    if (folder)
        closedir(folder);
    turn++;
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
        spoil_all();
        ping_pong(old, 50);
        warm_pair(new);
        spoil_all();
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
