// Both ends of a D-Bus conversation by libsystemd's sd-bus: "serve ADDRESS" has a name and a method that reads what a descriptor
// leads to, until it is told to end; "call ADDRESS" asks it, with texts of all sizes and with descriptors.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#define NAME "org.tests.Unix"
#define PATH "/org/tests/Unix"

enum { CALLS = 150, LARGEST = 200000 };

static int done(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-result));
        exit(1);
    }
    return result;
}

static sd_bus *open_bus(const char *address) {
    sd_bus *bus;
    done(sd_bus_new(&bus), "new");
    done(sd_bus_set_address(bus, address), "address");
    done(sd_bus_set_bus_client(bus, 1), "client");
    done(sd_bus_negotiate_fds(bus, 1), "descriptors");
    done(sd_bus_start(bus), "start");
    return bus;
}

static int on_length(sd_bus_message *message, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    const char *text;
    done(sd_bus_message_read(message, "s", &text), "a text");
    return sd_bus_reply_method_return(message, "us", (unsigned)strlen(text), text);
}

// What is in the two files, whose lengths differ.
static int on_files(sd_bus_message *message, void *data, sd_bus_error *error) {
    (void)data, (void)error;
    int files[2];
    unsigned number;
    char text[2][64] = {{0}};
    done(sd_bus_message_read(message, "huh", &files[0], &number, &files[1]), "descriptors");
    for (int file = 0; file < 2; file++)
        if (pread(files[file], text[file], sizeof text[file] - 1, 0) < 0)
            return -errno;
    return sd_bus_reply_method_return(message, "uss", number, text[0], text[1]);
}

static int on_end(sd_bus_message *message, void *data, sd_bus_error *error) {
    (void)error;
    *(int *)data = 1;
    return sd_bus_reply_method_return(message, "");
}

static const sd_bus_vtable METHODS[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Length", "s", "us", on_length, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Files", "huh", "uss", on_files, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("End", "", "", on_end, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

static void serve(const char *address) {
    sd_bus *bus = open_bus(address);
    int ended = 0;
    done(sd_bus_add_object_vtable(bus, NULL, PATH, NAME, METHODS, &ended), "methods");
    done(sd_bus_request_name(bus, NAME, 0), "name");
    puts("ready");
    fflush(stdout);
    while (!ended)
        if (done(sd_bus_process(bus, NULL), "process") == 0)
            done(sd_bus_wait(bus, UINT64_MAX), "wait");
    sd_bus_flush_close_unref(bus);
}

static sd_bus_message *ask(sd_bus *bus, sd_bus_message *request) {
    sd_bus_message *answer;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int result = sd_bus_call(bus, request, 20 * 1000000ull, &error, &answer);
    if (result < 0)
        fprintf(stderr, "%s\n", error.message ? error.message : "no message");
    done(result, "call");
    sd_bus_message_unref(request);
    return answer;
}

static sd_bus_message *request(sd_bus *bus, const char *method) {
    sd_bus_message *message;
    done(sd_bus_message_new_method_call(bus, &message, NAME, PATH, NAME, method), method);
    return message;
}

static unsigned long ask_lengths(sd_bus *bus) {
    static char text[LARGEST + 1];
    unsigned long sum = 0;
    for (int call = 0; call < CALLS; call++) {
        unsigned length, wanted = call * 7919 % (call % 10 ? 500 : LARGEST);
        const char *back;
        memset(text, 'a' + call % 26, wanted);
        text[wanted] = 0;
        sd_bus_message *message = request(bus, "Length");
        done(sd_bus_message_append(message, "s", text), "append");
        sd_bus_message *answer = ask(bus, message);
        done(sd_bus_message_read(answer, "us", &length, &back), "answer");
        if (length != wanted || strcmp(back, text) != 0)
            done(-EBADMSG, "another text");
        sum += length;
        sd_bus_message_unref(answer);
    }
    return sum;
}

static int file_with(const char *word, int number) {
    char text[40];
    int file = memfd_create(word, MFD_CLOEXEC);
    int length = snprintf(text, sizeof text, "%s %d", word, number);
    if (file < 0 || write(file, text, length) != length)
        done(-errno, word);
    return file;
}

static void ask_files(sd_bus *bus) {
    for (unsigned call = 0; call < CALLS; call++) {
        int first = file_with("first", call), second = file_with("and second", call);
        unsigned number;
        const char *texts[2];
        char wanted[2][40];
        sd_bus_message *message = request(bus, "Files");
        done(sd_bus_message_append(message, "huh", first, call, second), "append");
        close(first);
        close(second);
        sd_bus_message *answer = ask(bus, message);
        done(sd_bus_message_read(answer, "uss", &number, &texts[0], &texts[1]), "answer");
        snprintf(wanted[0], sizeof wanted[0], "first %u", call);
        snprintf(wanted[1], sizeof wanted[1], "and second %u", call);
        if (number != call || strcmp(texts[0], wanted[0]) || strcmp(texts[1], wanted[1]))
            done(-EBADMSG, "other files");
        sd_bus_message_unref(answer);
    }
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    if (strcmp(words[1], "serve") == 0) {
        serve(words[2]);
        return 0;
    }
    sd_bus *bus = open_bus(words[2]);
    unsigned long sum = ask_lengths(bus);
    ask_files(bus);
    sum += ask_lengths(bus);
    sd_bus_message_unref(ask(bus, request(bus, "End")));
    sd_bus_flush_close_unref(bus);
    printf("%lu bytes, %d files\n", sum, 2 * CALLS);
    return 0;
}
