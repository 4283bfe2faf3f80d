/* ranks ROUNDS: MPI processes send each other messages of many sizes, all to all and around a ring; every
 * byte tells who sent it, to whom, in which round and at which place, and is checked. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, count;

static unsigned char expected(int from, int to, int round, size_t at) {
    return (unsigned char)((size_t)from * 101 + (size_t)to * 53 + (size_t)round * 29 + at * 7 + (at >> 8));
}

static void fill(unsigned char *part, size_t bytes, int to, int round) {
    for (size_t at = 0; at < bytes; at++)
        part[at] = expected(rank, to, round, at);
}

static void check(const unsigned char *part, size_t bytes, int from, int round) {
    for (size_t at = 0; at < bytes; at++) {
        if (part[at] == expected(from, rank, round, at))
            continue;
        fprintf(stderr, "ranks: wrong byte %zu of %zu from %d to %d in round %d\n", at, bytes, from, rank, round);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void exchange(size_t bytes, int round) {
    unsigned char *out = malloc(bytes * (size_t)count), *in = malloc(bytes * (size_t)count);
    int left = (rank + count - 1) % count, right = (rank + 1) % count;
    for (int to = 0; to < count; to++)
        fill(out + bytes * (size_t)to, bytes, to, round);
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < count; from++)
        check(in + bytes * (size_t)from, bytes, from, round);
    MPI_Sendrecv(out + bytes * (size_t)right, (int)bytes, MPI_BYTE, right, 0, in, (int)bytes, MPI_BYTE, left, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(in, bytes, left, round);
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    static const size_t SIZES[] = {1, 64, 1000, 5000, 70000, 300000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    int rounds = argc > 1 ? atoi(argv[1]) : 1, mine = 1, sum = 0;
    for (int round = 0; round < rounds; round++)
        exchange(SIZES[(size_t)round % (sizeof SIZES / sizeof *SIZES)], round);
    MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, all bytes in their places\n", sum);
    MPI_Finalize();
    return 0;
}
