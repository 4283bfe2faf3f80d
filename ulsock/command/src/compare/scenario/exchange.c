/* exchange halo|all-to-all BYTES WARM_UP SECONDS: steps of a parallel program, timed.
 * halo: each process swaps BYTES with its two neighbours, relaxes its part of a line, and all agree on
 * a sum. all-to-all: each process sends BYTES to every other. Prints one line of JSON. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int rank, count;
static size_t bytes;
static char *outgoing, *incoming;

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
    fprintf(stderr, "exchange: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The edges carry the step's number, so that a stale one shows. */
static void halo(long step) {
    int left = (rank + count - 1) % count, right = (rank + 1) % count;
    MPI_Request requests[4];
    memset(outgoing, (int)step, 2 * bytes);
    MPI_Irecv(incoming, (int)bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(incoming + bytes, (int)bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(outgoing, (int)bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(outgoing + bytes, (int)bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    if (incoming[0] != (char)step || incoming[2 * bytes - 1] != (char)step)
        fail("a neighbour's edge is of another step");
    double mine = 1.0, sum = 0.0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != count)
        fail("the sum is wrong");
}

static void all_to_all(long step) {
    memset(outgoing, (int)step, bytes * (size_t)count);
    MPI_Alltoall(outgoing, (int)bytes, MPI_BYTE, incoming, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    if (incoming[0] != (char)step || incoming[bytes * (size_t)count - 1] != (char)step)
        fail("somebody's part is of another step");
}

/* Process 0 looks at the clock and tells the others every few steps whether to go on. */
static long run_for(double seconds, void (*step)(long), long done) {
    const int BATCH = 16;
    double start = MPI_Wtime();
    int more = 1;
    while (more) {
        for (int i = 0; i < BATCH; i++)
            step(++done);
        more = MPI_Wtime() - start < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return done;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (argc != 5)
        fail("usage: exchange halo|all-to-all BYTES WARM_UP SECONDS");
    void (*step)(long) = strcmp(argv[1], "halo") == 0 ? halo : all_to_all;
    bytes = strtoul(argv[2], NULL, 10);
    size_t room = bytes * (size_t)(count > 2 ? count : 2);
    outgoing = malloc(room);
    incoming = malloc(room);
    if (bytes == 0 || !outgoing || !incoming)
        fail("no memory, or no bytes");
    long before = run_for(atof(argv[3]), step, 0);
    double cpu = cpu_seconds(), start = MPI_Wtime();
    long steps = run_for(atof(argv[4]), step, before) - before;
    double seconds = MPI_Wtime() - start, all = 0.0;
    cpu = cpu_seconds() - cpu;
    MPI_Reduce(&cpu, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"steps\":%ld,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n", steps, seconds, all);
    MPI_Finalize();
    return 0;
}
