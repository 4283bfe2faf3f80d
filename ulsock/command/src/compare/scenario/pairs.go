// pairs server PORT
// pairs trips HOST PORT SIZE COUNT CONNECTIONS
// pairs get HOST PORT COUNT CONNECTIONS
//
// Round trips between two programs of Go's package net, a goroutine for each connection at both ends, and GETs of a client
// of redis, one at a time on each connection. A client prints one line of JSON. The server ends when all its clients have
// gone.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	words := os.Args[1:]
	switch {
	case len(words) == 2 && words[0] == "server":
		serve(net.JoinHostPort("", words[1]))
	case len(words) == 6 && words[0] == "trips":
		size := number(words[3])
		measure(words, number(words[4]), number(words[5]), func(conn net.Conn, count int) {
			trips(conn, size, count)
		})
	case len(words) == 5 && words[0] == "get":
		measure(words, number(words[3]), number(words[4]), get)
	default:
		panic("pairs server PORT | trips HOST PORT SIZE COUNT CONNECTIONS | get HOST PORT COUNT CONNECTIONS")
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func number(word string) int {
	number, err := strconv.Atoi(word)
	check(err)
	return number
}

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	check(err)
	var clients sync.WaitGroup
	first := make(chan struct{})
	go func() {
		for accepted := 0; ; accepted++ {
			conn, err := listener.Accept()
			check(err)
			clients.Add(1)
			if accepted == 0 {
				close(first)
			}
			go func() {
				defer clients.Done()
				echo(conn)
			}()
		}
	}()
	<-first
	clients.Wait()
}

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 64<<10)
	for {
		length, err := conn.Read(buffer)
		if err == io.EOF {
			return
		}
		check(err)
		_, err = conn.Write(buffer[:length])
		check(err)
	}
}

// All connections are there before the first message, so that none is the last for the server.
func measure(words []string, count, connections int, exchange func(net.Conn, int)) {
	conns := make([]net.Conn, connections)
	for index := range conns {
		conn, err := net.Dial("tcp", net.JoinHostPort(words[1], words[2]))
		check(err)
		conns[index] = conn
	}
	each := (count + connections - 1) / connections
	var clients sync.WaitGroup
	start := time.Now()
	for _, conn := range conns {
		clients.Add(1)
		go func(conn net.Conn) {
			defer clients.Done()
			exchange(conn, each)
		}(conn)
	}
	clients.Wait()
	took := time.Since(start).Seconds()
	for _, conn := range conns {
		check(conn.Close())
	}
	fmt.Printf("{\"messages\":%d,\"seconds\":%.6f}\n", each*connections, took)
}

func trips(conn net.Conn, size, count int) {
	message := make([]byte, size)
	for index := 0; index < count; index++ {
		_, err := conn.Write(message)
		check(err)
		_, err = io.ReadFull(conn, message)
		check(err)
	}
}

// The value has 3 bytes, as redis-benchmark's.
func get(conn net.Conn, count int) {
	reader := bufio.NewReader(conn)
	ask := func(command, answer string) {
		_, err := io.WriteString(conn, command)
		check(err)
		got := make([]byte, len(answer))
		_, err = io.ReadFull(reader, got)
		check(err)
		if string(got) != answer {
			panic(fmt.Sprintf("redis answered %q", got))
		}
	}
	ask("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3\r\nabc\r\n", "+OK\r\n")
	for index := 0; index < count; index++ {
		ask("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "$3\r\nabc\r\n")
	}
}
