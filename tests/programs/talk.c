/* Talks over TCP connections to itself while the program is loaded, runs and ends. As a library it
 * does so in its constructor and destructor; as a program (PROGRAM) in main, with
 *     talk [LIBRARY [deepbind]]
 * which also loads the library and lets it talk, on its own connections and on the program's. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 200, SIZE = 100 };

struct pair {
    int near, far;
};

static void check(int good, const char *who, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s: ", who);
        perror(what);
        _exit(1);
    }
}

static struct pair connection(const char *who)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    struct pair pair;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    check(bind(listener, (struct sockaddr *)&address, length) == 0, who, "bind");
    check(listen(listener, 1) == 0, who, "listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    pair.near = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(pair.near, (struct sockaddr *)&address, length) == 0, who, "connect");
    pair.far = accept(listener, NULL, NULL);
    check(pair.far >= 0, who, "accept");
    close(listener);
    return pair;
}

static void one_way(const char *who, int from, int to, int round)
{
    char sent[SIZE], received[SIZE];

    memset(sent, round, SIZE);
    check(write(from, sent, SIZE) == SIZE, who, "write");
    check(recv(to, received, SIZE, MSG_WAITALL) == SIZE, who, "recv");
    check(memcmp(sent, received, SIZE) == 0, who, "compare");
}

static void exchange(const char *who, struct pair pair)
{
    for (int round = 0; round < ROUNDS; round++) {
        one_way(who, pair.near, pair.far, round);
        one_way(who, pair.far, pair.near, round);
    }
}

/* On a connection of its own, on the one of before, and on what the caller has. */
void talk(const char *who, int near, int far)
{
    static struct pair last;
    struct pair given = {near, far}, new = connection(who);

    exchange(who, new);
    if (last.near)
        exchange(who, last);
    if (near)
        exchange(who, given);
    last = new;
    printf("%s has talked\n", who);
    fflush(stdout);
}

#ifdef PROGRAM

static void at_the_end(void)
{
    talk("exit handler", 0, 0);
}

int main(int argc, char **argv)
{
    struct pair pair = connection("main");

    atexit(at_the_end);
    exchange("main", pair);
    talk("main", pair.near, pair.far);
    if (argc > 1) {
        int flags = RTLD_NOW | (argc > 2 ? RTLD_DEEPBIND : 0);
        void *library = dlopen(argv[1], flags);
        void (*of_library)(const char *, int, int);

        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        of_library = (void (*)(const char *, int, int))dlsym(library, "talk");
        of_library("plugin", pair.near, pair.far);
        exchange("main", pair);
    }
    return 0;
}

#else

__attribute__((constructor)) static void begin(void)
{
    talk("constructor", 0, 0);
}

__attribute__((destructor)) static void end(void)
{
    talk("destructor", 0, 0);
}

#endif
