// Deadlines and ends: what errors a program sees, and that it can go on after those that are not final.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Waits for the other end to end.
func serveSilent(s *session) {
	_, err := io.Copy(io.Discard, s)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		check(err)
	}
}

// What a program may tell errors apart by.
func kindOf(err error) string {
	kinds := []struct {
		name string
		err  error
	}{
		{"deadline", os.ErrDeadlineExceeded},
		{"closed", net.ErrClosed},
		{"end", io.EOF},
		{"reset", syscall.ECONNRESET},
		{"refused", syscall.ECONNREFUSED},
		{"pipe", syscall.EPIPE},
	}
	for _, kind := range kinds {
		if errors.Is(err, kind.err) {
			return kind.name
		}
	}
	return fmt.Sprint(err)
}

func callDeadlines(s *session) {
	one := make([]byte, 1)
	check(s.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	_, err := s.Read(one)
	fmt.Printf(" read %s", kindOf(err))
	check(s.SetReadDeadline(time.Time{}))
	s.send(one)
	s.receive(one)
	check(s.SetDeadline(time.Now().Add(-time.Second)))
	_, err = s.Read(one)
	fmt.Printf(", read %s", kindOf(err))
	_, err = s.Write(one)
	fmt.Printf(", write %s", kindOf(err))
	check(s.SetDeadline(time.Time{}))
	// A deadline that comes while another goroutine reads.
	reading := make(chan error)
	go func() {
		_, err := s.Read(one)
		reading <- err
	}()
	check(s.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
	fmt.Printf(", read %s", kindOf(<-reading))
	check(s.SetReadDeadline(time.Time{}))
	s.send(one)
	s.receive(one)
	writeUntilFull(s)
}

// The other end echoes and this one does not read, until both directions are full.
func writeUntilFull(s *session) {
	echo := open(s.port, numberOf("echo"), s.seed)
	defer echo.Close()
	piece := bytesOf(s.seed, 1<<20)
	sent := 0
	check(echo.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)))
	var err error
	for err == nil {
		var written int
		written, err = echo.Write(piece)
		sent += written
	}
	fmt.Printf(", write %s", kindOf(err))
	check(echo.SetWriteDeadline(time.Time{}))
	check(echo.CloseWrite())
	_, received := hashToEnd(echo)
	fmt.Printf(", all back %v", int(received) == sent)
}

func callClosed(s *session) {
	reading := make(chan error)
	go func() {
		_, err := s.Read(make([]byte, 1))
		reading <- err
	}()
	check(s.Close())
	fmt.Printf(" read %s", kindOf(<-reading))
	_, err := s.Write([]byte{1})
	fmt.Printf(", write %s, close %s", kindOf(err), kindOf(s.Close()))
}

func serveReset(s *session) {
	s.receive(make([]byte, 100))
	check(s.SetLinger(0))
}

func callReset(s *session) {
	s.send(make([]byte, 100))
	_, err := s.Read(make([]byte, 1))
	fmt.Printf(" read %s", kindOf(err))
}

func callRefused(s *session) {
	listener, err := net.Listen("tcp", local(0))
	check(err)
	address := listener.Addr().String()
	check(listener.Close())
	_, err = net.Dial("tcp", address)
	fmt.Printf(" dial %s", kindOf(err))
}
