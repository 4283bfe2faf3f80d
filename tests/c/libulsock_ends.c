/* Tasks of libulsock at the ends of processes: after fork, at exit. Says "done" at its end, from a task. */

#define _GNU_SOURCE
#include "must.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int runs, cancelled;
static ulsock_task *own;

static void sleeper(void *nothing)
{
    (void)nothing;
    runs += 1;
    if (ulsock_sleep(60000) == ULSOCK_CANCELLED)
        cancelled += 1;
}

/* No task begins before somebody waits. */
static void begin(ulsock_task **task)
{
    ulsock_task *other;

    MUST(ulsock_task_begin(sleeper, NULL, task));
    MUST(ulsock_task_begin(sleeper, NULL, &other));
    CHECK(runs == 0);
    MUST(ulsock_yield());
    CHECK(runs == 2);
    MUST(ulsock_task_cancel(other));
    MUST(ulsock_task_join(other));
    CHECK(cancelled == 1);
    ulsock_task_free(other);
}

static void join_oneself(void *nothing)
{
    (void)nothing;
    REFUSED(ULSOCK_BAD_ARGUMENT, ulsock_task_join(own));
    runs += 1;
}

static void nobody_waits_for_himself(void)
{
    runs = 0;
    MUST(ulsock_task_begin(join_oneself, NULL, &own));
    MUST(ulsock_task_join(own));
    CHECK(runs == 1);
    ulsock_task_free(own);
}

static void *end_with_a_task(void *nothing)
{
    MUST(ulsock_task_begin(sleeper, NULL, NULL));
    MUST(ulsock_yield());
    return nothing;
}

/* Its task is cancelled, as by anybody else. */
static void a_thread_ends(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, end_with_a_task, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(cancelled == 2);
    cancelled = 1;
}

static void echo(void *given)
{
    ulsock_stream *stream;
    char byte;

    MUST(ulsock_listener_accept(given, &stream));
    MUST(ulsock_stream_read_exact(stream, &byte, 1));
    MUST(ulsock_stream_write(stream, &byte, 1));
    ulsock_stream_free(stream);
}

static void no_task_of_the_parent_has_gone_on(void)
{
    if (cancelled != 1)
        _exit(2);
}

/* A child waits, and has tasks, of its own; its parent's stay its parent's, also when it exits. */
static void child(void)
{
    ulsock_listener *listener;
    ulsock_stream *stream;
    ulsock_address address;
    ulsock_task *task;
    char byte = 'x';

    atexit(no_task_of_the_parent_has_gone_on);
    MUST(ulsock_sleep(1));
    MUST(ulsock_listener_bind("127.0.0.1:0", &listener));
    MUST(ulsock_listener_address(listener, &address));
    MUST(ulsock_task_begin(echo, listener, &task));
    MUST(ulsock_stream_connect(address.text, &stream));
    MUST(ulsock_stream_write(stream, &byte, 1));
    MUST(ulsock_stream_read_exact(stream, &byte, 1));
    MUST(ulsock_task_join(task));
    CHECK(byte == 'x' && cancelled == 1);
    exit(0);
}

static void forks(void)
{
    int status;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        child();
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The thread's own things are gone then. */
static void at_exit(void)
{
    REFUSED(ULSOCK_CANNOT_WAIT, ulsock_sleep(1));
    CHECK(strlen(ulsock_error_text()) == 0);
    REFUSED(ULSOCK_CANNOT_WAIT, ulsock_task_begin(sleeper, NULL, NULL));
    printf("done\n");
    fflush(stdout);
}

static void exits(void *nothing)
{
    (void)nothing;
    atexit(at_exit);
    exit(0);
}

int main(void)
{
    ulsock_task *task;

    begin(&task);
    nobody_waits_for_himself();
    a_thread_ends();
    forks();
    MUST(ulsock_task_cancel(task));
    MUST(ulsock_task_join(task));
    CHECK(cancelled == 2);
    ulsock_task_free(task);
    MUST(ulsock_task_begin(exits, NULL, NULL));
    MUST(ulsock_sleep(60000));
    return 1;
}
