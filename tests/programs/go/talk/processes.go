// Other processes and signals: os/exec beside connections and with one that is handed over, os/signal in traffic.
package main

import (
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const (
	handedBytes = 300_000
	pouredBytes = 12 << 20
)

// Bytes before, and bytes that the child answers.
func serveHanded(s *session) {
	serveEcho(s)
}

// A child gets a connection that has been used, asks on it, and the parent goes on afterwards.
func callHanded(s *session) {
	for trip := 0; trip < 500; trip++ {
		s.roundTrip(100)
	}
	beside := s.again(s.seed + 1)
	file, err := s.File()
	check(err)
	command := exec.Command("/proc/self/exe", "child")
	command.ExtraFiles = []*os.File{file}
	command.Stderr = os.Stderr
	text, err := command.Output()
	check(err)
	check(file.Close())
	for trip := 0; trip < 500; trip++ {
		s.roundTrip(100)
		beside.roundTrip(100)
	}
	beside.Close()
	fmt.Printf(" the child: %s, and on", text)
}

func child() {
	conn, err := net.FileConn(os.NewFile(3, "connection"))
	check(err)
	s := newSession(conn.(*net.TCPConn), 0, 0, 3)
	go s.send(bytesOf(s.seed, handedBytes))
	demand(s, s.seed, handedBytes)
	fmt.Printf("%d bytes", handedBytes)
}

// A child gets one end of a Unix socket, new or used, and ends; what comes at the other end goes on to the server, by splice.
func callPoured(s *session) {
	folder := temporary()
	defer os.RemoveAll(folder)
	listener, err := net.Listen("unix", filepath.Join(folder, "socket"))
	check(err)
	defer listener.Close()
	for round := 0; round < 6; round++ {
		near, err := net.Dial("unix", listener.Addr().String())
		check(err)
		far, err := listener.Accept()
		check(err)
		for trip := 0; trip < round*10; trip++ {
			through(near, far, bytesOf(s.seed, 100))
			through(far, near, bytesOf(s.seed, 100))
		}
		file, err := near.(*net.UnixConn).File()
		check(err)
		command := exec.Command("/proc/self/exe", "pour")
		command.ExtraFiles = []*os.File{file}
		command.Stderr = os.Stderr
		check(command.Start())
		check(near.Close())
		check(file.Close())
		done := make(chan struct{})
		go func() {
			defer close(done)
			copied, err := io.Copy(s.TCPConn, far)
			check(err)
			if copied != pouredBytes {
				fail("%d bytes poured", copied)
			}
		}()
		demand(s, 4, pouredBytes)
		check(command.Wait())
		<-done
		check(far.Close())
	}
	fmt.Printf(" %d bytes", pouredBytes)
}

func pour() {
	conn, err := net.FileConn(os.NewFile(3, "connection"))
	check(err)
	rng := rand.New(rand.NewSource(1))
	for left := bytesOf(4, pouredBytes); len(left) > 0; {
		length := 1 + rng.Intn(100_000)
		if length > len(left) {
			length = len(left)
		}
		_, err := conn.Write(left[:length])
		check(err)
		left = left[length:]
	}
}

// Commands that start and end while other goroutines talk.
func callCommands(s *session) {
	stop := make(chan struct{})
	var group sync.WaitGroup
	for index := 1; index <= 4; index++ {
		group.Add(1)
		go func(another *session) {
			defer group.Done()
			defer another.Close()
			for {
				select {
				case <-stop:
					return
				default:
					another.roundTrip(1 + another.rng.Intn(5000))
				}
			}
		}(s.again(s.seed + int64(index)))
	}
	for index := 0; index < 20; index++ {
		command := exec.Command("/bin/sh", "-c", "read line; echo $line; exit 3")
		command.Stdin = strings.NewReader("a line\n")
		text, err := command.Output()
		if string(text) != "a line\n" || command.ProcessState.ExitCode() != 3 {
			fail("a command: %q, %v", text, err)
		}
	}
	close(stop)
	group.Wait()
	_, err := exec.Command("/no/such/program").Output()
	fmt.Printf(" %d commands, %v", 20, err)
}

// Signals of its own during round trips.
func callSignals(s *session) {
	const signals = 200
	notes := make(chan os.Signal, signals)
	signal.Notify(notes, syscall.SIGUSR1, syscall.SIGWINCH)
	defer signal.Stop(notes)
	for index := 0; index < signals; index++ {
		which := syscall.SIGUSR1
		if index%2 == 1 {
			which = syscall.SIGWINCH
		}
		check(syscall.Kill(os.Getpid(), which))
		s.roundTrip(100)
		if got := <-notes; got != which {
			fail("signal %v", got)
		}
	}
	fmt.Printf(" %d signals", signals)
}
