/* The plate of main.rs with MPI: prints the heat, and the time of the slowest process. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int size, rows, rank, ranks;

/* Each place becomes the mean of its neighbours. */
static void step(const double *now, double *next)
{
    for (int row = 1; row <= rows; row++) {
        const double *here = now + (size_t)row * size;
        double *to = next + (size_t)row * size;
        for (int column = 1; column < size - 1; column++)
            to[column] = (here[column - size] + here[column + size] + (here[column - 1] + here[column + 1])) / 4.0;
    }
}

static void exchange(double *now)
{
    int upper = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int lower = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request requests[4];
    MPI_Irecv(now, size, MPI_DOUBLE, upper, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(now + (size_t)(rows + 1) * size, size, MPI_DOUBLE, lower, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(now + size, size, MPI_DOUBLE, upper, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(now + (size_t)rows * size, size, MPI_DOUBLE, lower, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3)
        return 2;
    size = atoi(argv[1]);
    int steps = atoi(argv[2]);
    rows = size / ranks + (rank < size % ranks);
    size_t bytes = (size_t)(rows + 2) * size * sizeof(double);
    double *now = calloc(1, bytes), *next = calloc(1, bytes);
    if (!now || !next)
        return 1;
    for (int column = 0; rank == 0 && column < size; column++)
        now[column] = next[column] = 100.0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int number = 0; number < steps; number++) {
        exchange(now);
        step(now, next);
        double *swapped = now;
        now = next;
        next = swapped;
    }
    double seconds = MPI_Wtime() - begun, heat = 0, all, slowest;
    for (size_t at = size; at < (size_t)(rows + 1) * size; at++)
        heat += now[at];
    MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f %f\n", all, slowest);
    MPI_Finalize();
    return 0;
}
