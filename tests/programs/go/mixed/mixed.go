// Go and C in one program, both with connections: C's calls go through libc, Go's past it.
//
//	mixed PORT    round trips to the echo there: on a connection of Go's, on one of C's, and on one of Go's by both
package main

/*
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int waited(int fd, short events) {
	struct pollfd one = { .fd = fd, .events = events };
	return errno == EAGAIN && poll(&one, 1, 10000) == 1;
}

// 0 if every byte came back.
static int trips(int fd, int count) {
	char sent[512], got[512];
	for (int trip = 0; trip < count; trip++) {
		size_t length = 1 + trip % sizeof sent;
		memset(sent, 'a' + trip % 26, length);
		for (size_t at = 0; at < length;) {
			ssize_t n = send(fd, sent + at, length - at, MSG_NOSIGNAL);
			if (n > 0)
				at += n;
			else if (!waited(fd, POLLOUT))
				return 1;
		}
		for (size_t at = 0; at < length;) {
			ssize_t n = recv(fd, got + at, length - at, 0);
			if (n > 0)
				at += n;
			else if (n == 0 || !waited(fd, POLLIN))
				return 2;
		}
		if (memcmp(sent, got, length) != 0)
			return 3;
	}
	return 0;
}

static int connected(int port) {
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
		return -1;
	return fd;
}

static int of_c(int port, int count) {
	int fd = connected(port);
	if (fd < 0)
		return 4;
	int result = trips(fd, count);
	close(fd);
	return result;
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
)

const rounds = 1000

func main() {
	port, err := strconv.Atoi(os.Args[1])
	check(err)
	var group sync.WaitGroup
	for _, talk := range []func(int){ofGo, ofC, ofBoth} {
		for index := 0; index < 3; index++ {
			group.Add(1)
			go func(talk func(int)) {
				defer group.Done()
				talk(port)
			}(talk)
		}
	}
	group.Wait()
	fmt.Println("all came back")
}

func ofGo(port int) {
	conn := dial(port)
	defer conn.Close()
	trips(conn, rounds)
}

func ofC(port int) {
	checkC(C.of_c(C.int(port), rounds))
}

// In turn, on the descriptor that Go's poller watches, too.
func ofBoth(port int) {
	conn := dial(port)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	check(err)
	for turn := 0; turn < 20; turn++ {
		trips(conn, rounds/40)
		check(raw.Control(func(fd uintptr) { checkC(C.trips(C.int(fd), rounds/40)) }))
	}
}

func dial(port int) net.Conn {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	check(err)
	return conn
}

func trips(conn net.Conn, count int) {
	for trip := 0; trip < count; trip++ {
		sent := bytes.Repeat([]byte{byte(trip)}, 1+trip%700)
		_, err := conn.Write(sent)
		check(err)
		got := make([]byte, len(sent))
		_, err = io.ReadFull(conn, got)
		check(err)
		if !bytes.Equal(sent, got) {
			panic("other bytes came back")
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func checkC(result C.int) {
	if result != 0 {
		panic(fmt.Sprintf("in C: %d", result))
	}
}
