// Connections between goroutines of two processes, or of one, with every byte checked.
//
//	echo serve ADDRESS            answers with what comes, until its standard input ends
//	echo call ADDRESS N ROUNDS    N connections at once, ROUNDS messages each, of many lengths
//	echo foreign COUNT            the time of a system call that is about no connection
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		serve(os.Args[2])
	case len(os.Args) == 5 && os.Args[1] == "call":
		call(os.Args[2], number(os.Args[3]), number(os.Args[4]))
	case len(os.Args) == 3 && os.Args[1] == "foreign":
		foreign(number(os.Args[2]))
	default:
		fail("give: serve ADDRESS, call ADDRESS N ROUNDS, or foreign COUNT")
	}
}

func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fail(err)
	}
	return n
}

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	io.Copy(io.Discard, os.Stdin)
}

// Not io.Copy, which would splice.
func answer(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if _, err := conn.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func call(address string, connections, rounds int) {
	var all sync.WaitGroup
	begin := time.Now()
	for seed := 1; seed <= connections; seed++ {
		all.Add(1)
		go func(seed int) {
			defer all.Done()
			talk(address, uint32(seed), rounds)
		}(seed)
	}
	all.Wait()
	per := time.Since(begin) / time.Duration(rounds*connections)
	fmt.Println(connections*rounds, "rounds,", per, "each")
}

func talk(address string, seed uint32, rounds int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		fail(err)
	}
	defer conn.Close()
	lengths := []int{64, 1, 1000, 64, 7, 4096, 64, 70000}
	sent, got := make([]byte, 70000), make([]byte, 70000)
	for round := 0; round < rounds; round++ {
		n := lengths[round%len(lengths)]
		for at := range sent[:n] {
			seed = seed*1664525 + 1013904223
			sent[at] = byte(seed >> 24)
		}
		go conn.Write(sent[:n])
		if _, err := io.ReadFull(conn, got[:n]); err != nil {
			fail("read:", err)
		}
		if string(got[:n]) != string(sent[:n]) {
			fail("other bytes came back")
		}
	}
}

func foreign(count int) {
	begin := time.Now()
	for range make([]struct{}, count) {
		syscall.Getppid()
	}
	plain := time.Since(begin)
	begin = time.Now()
	for range make([]struct{}, count) {
		syscall.Read(-1, nil)
	}
	fmt.Println("getppid", plain/time.Duration(count), "read of no descriptor", time.Since(begin)/time.Duration(count))
}
