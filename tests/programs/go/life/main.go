// A server of echo's kind, in whose process much else goes on: signals that preempt, a profile of the CPU, the
// collector all the time, signals that it has asked for, and children, of which some are given a connection.
//
//	life serve ADDRESS            until its standard input ends
//	life hand ADDRESS             connects, talks, and hands its connection to cat, which answers for it
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
)

func main() {
	if len(os.Args) != 3 {
		fail("give: serve ADDRESS, or hand ADDRESS")
	}
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2])
	case "hand":
		hand(os.Args[2])
	default:
		fail("unknown:", os.Args[1])
	}
}

func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}

var signals, children, collections, computed int64

func serve(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr())
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		fail(err)
	}
	debug.SetGCPercent(1)
	go signalled()
	go parents()
	go computes()
	go func() {
		for {
			runtime.GC()
			atomic.AddInt64(&collections, 1)
		}
	}()
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
	pprof.StopCPUProfile()
	load := func(n *int64) int64 { return atomic.LoadInt64(n) }
	fmt.Println("signals", load(&signals), "children", load(&children), "collections", load(&collections),
		"computed", load(&computed), "profile", profile.Len())
}

func answer(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			if _, err := conn.Write(deep(20, buffer[:n])); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Goroutines' stacks grow and shrink.
func deep(n int, bytes []byte) []byte {
	var room [512]byte
	if n == 0 {
		return bytes
	}
	room[n] = byte(n)
	bytes = deep(n-1, bytes)
	if room[n] != byte(n) {
		fail("stack")
	}
	return bytes
}

// A loop without a call: only a signal interrupts it.
func computes() {
	for {
		sum := uint64(0)
		for i := uint64(0); i < 1<<24; i++ {
			sum = sum*31 + i
		}
		atomic.AddInt64(&computed, int64(sum&1)+1)
		runtime.Gosched()
	}
}

func signalled() {
	came := make(chan os.Signal, 16)
	signal.Notify(came, syscall.SIGUSR1)
	for {
		syscall.Kill(os.Getpid(), syscall.SIGUSR1)
		<-came
		atomic.AddInt64(&signals, 1)
	}
}

func parents() {
	for {
		command := exec.Command("cat")
		command.Stdin = strings.NewReader("said")
		said, err := command.Output()
		if err != nil || string(said) != "said" {
			fail("child:", string(said), err)
		}
		atomic.AddInt64(&children, 1)
	}
}

// What it says comes back; the first half through this program, the second through its child.
func hand(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		fail(err)
	}
	word := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n%26)}, 100+n) }
	for n := 0; n < 1000; n++ {
		if _, err := conn.Write(word(n)); err != nil {
			fail(err)
		}
		back := make([]byte, len(word(n)))
		if _, err := io.ReadFull(conn, back); err != nil || !bytes.Equal(back, word(n)) {
			fail("other bytes", err)
		}
	}
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		fail(err)
	}
	// One line that its child reads.
	if _, err := conn.Write([]byte("for the child\n")); err != nil {
		fail(err)
	}
	command := exec.Command("head", "-n", "1")
	command.Stdin = file
	said, err := command.Output()
	if err != nil || string(said) != "for the child\n" {
		fail("child:", string(said), err)
	}
	// And goes on by itself.
	if _, err := conn.Write([]byte("again")); err != nil {
		fail(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(conn, back); err != nil || string(back) != "again" {
		fail("after the child", string(back), err)
	}
	fmt.Println("handed")
}
