// What the standard library leaves to the kernel where it can: io.Copy between connections (splice), from a file
// (sendfile), and to a Unix socket.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

const relayBytes = 6 << 20

// A proxy: it connects to the echo of this process, and copies both ways; how much came to it.
func proxy(s *session) int64 {
	upstream := open(s.port, numberOf("echo"), s.seed)
	defer upstream.Close()
	back := make(chan struct{})
	go func() {
		_, err := io.Copy(s.TCPConn, upstream.TCPConn)
		check(err)
		check(s.CloseWrite())
		close(back)
	}()
	copied, err := io.Copy(upstream.TCPConn, s.TCPConn)
	check(err)
	check(upstream.CloseWrite())
	<-back
	return copied
}

func serveRelay(s *session) {
	if copied := proxy(s); copied != relayBytes {
		fail("%d bytes relayed", copied)
	}
}

func serveRelayed(s *session) {
	proxy(s)
}

// Short ones, there and back.
func callRelayed(s *session) {
	const trips = 2000
	for trip := 0; trip < trips; trip++ {
		s.roundTrip(64)
	}
	check(s.CloseWrite())
	ends(s)
	fmt.Printf(" %d round trips", trips)
}

func callRelay(s *session) {
	go func() {
		_, err := io.Copy(s, newPattern(s.seed, relayBytes))
		check(err)
		check(s.CloseWrite())
	}()
	demand(s, s.seed, relayBytes)
	ends(s)
	fmt.Printf(" %d bytes", relayBytes)
}

func numberOf(name string) int {
	for number, subject := range subjects {
		if subject.name == name {
			return number
		}
	}
	panic(name)
}

func temporary() string {
	folder, err := os.MkdirTemp("", "talk-")
	check(err)
	return folder
}

// A whole file, then a part of it, between bytes that are written.
func serveFile(s *session) {
	folder := temporary()
	defer os.RemoveAll(folder)
	name := filepath.Join(folder, "file")
	check(os.WriteFile(name, bytesOf(s.seed, relayBytes), 0o600))
	file, err := os.Open(name)
	check(err)
	defer file.Close()
	s.send([]byte("head"))
	_, err = io.Copy(s, file)
	check(err)
	_, err = file.Seek(0, io.SeekStart)
	check(err)
	_, err = io.CopyN(s, file, 100_000)
	check(err)
	s.send([]byte("tail"))
}

func callFile(s *session) {
	head := s.receive(make([]byte, 4))
	demand(s, s.seed, relayBytes)
	demand(s, s.seed, 100_000)
	tail := s.receive(make([]byte, 4))
	ends(s)
	// The other way: from the connection into a file.
	fmt.Printf(" %s, %d bytes, %s", head, relayBytes, tail)
}

// What comes goes through a Unix socket and back.
func serveUnix(s *session) {
	folder := temporary()
	defer os.RemoveAll(folder)
	listener, err := net.Listen("unix", filepath.Join(folder, "socket"))
	check(err)
	defer listener.Close()
	go func() {
		far, err := listener.Accept()
		check(err)
		_, err = io.Copy(far, far)
		check(err)
		check(far.(*net.UnixConn).CloseWrite())
	}()
	near, err := net.Dial("unix", listener.Addr().String())
	check(err)
	defer near.Close()
	go func() {
		// By splice since 1.22.
		_, err := io.Copy(near, s.TCPConn)
		check(err)
		check(near.(*net.UnixConn).CloseWrite())
	}()
	_, err = io.Copy(s.TCPConn, near)
	check(err)
}

func callUnix(s *session) {
	go func() {
		_, err := io.Copy(s, newPattern(s.seed, relayBytes))
		check(err)
		check(s.CloseWrite())
	}()
	demand(s, s.seed, relayBytes)
	ends(s)
	fmt.Printf(" %d bytes", relayBytes)
}
