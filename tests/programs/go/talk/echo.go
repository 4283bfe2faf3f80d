// Round trips and streams: small and large, few and many connections, gathered writes.
package main

import (
	"fmt"
	"io"
	"net"
	"sync"
)

const (
	pings       = 3000
	echoes      = 8
	echoBytes   = 2 << 20
	connections = 150
	downBytes   = 24 << 20
)

// Until the other end has no more to say, or has gone: it says itself what it has missed. A buffer as small as many servers
// have.
func serveEcho(s *session) {
	buffer := make([]byte, 4<<10)
	for {
		length, err := s.Read(buffer)
		if gone(err) {
			return
		}
		if _, err = s.Write(buffer[:length]); gone(err) {
			return
		}
	}
}

func servePing(s *session) {
	check(s.SetNoDelay(true))
	serveEcho(s)
}

func callPing(s *session) {
	for range [pings]struct{}{} {
		s.roundTrip(64)
	}
	fmt.Printf(" %d round trips", pings)
}

// Several connections, each with a goroutine that writes pieces of any size, and one that reads.
func callEcho(s *session) {
	var group sync.WaitGroup
	for index := 0; index < echoes; index++ {
		group.Add(1)
		go func(seed int64) {
			defer group.Done()
			echo(s.again(seed))
		}(s.seed + int64(index))
	}
	group.Wait()
	fmt.Printf(" %d connections, %d bytes each", echoes, echoBytes)
}

func echo(s *session) {
	defer s.Close()
	go func() {
		left := bytesOf(s.seed, echoBytes)
		for len(left) > 0 {
			// Mostly small ones.
			length := 1 + s.rng.Intn(1<<uint(s.rng.Intn(17)))
			if length > len(left) {
				length = len(left)
			}
			s.send(left[:length])
			left = left[length:]
		}
		check(s.CloseWrite())
	}()
	demand(s, s.seed, echoBytes)
	ends(s)
}

func ends(s *session) {
	if length, err := s.Read(make([]byte, 1)); length != 0 || err != io.EOF {
		fail("no end but %d bytes, %v", length, err)
	}
}

// Many goroutines in one epoll set.
func callMany(s *session) {
	var group sync.WaitGroup
	for index := 0; index < connections; index++ {
		group.Add(1)
		go func(seed int64) {
			defer group.Done()
			another := s.again(seed)
			for trip := 0; trip < 40; trip++ {
				another.roundTrip(1 + another.rng.Intn(3000))
			}
			check(another.CloseWrite())
			ends(another)
			another.Close()
		}(s.seed + int64(index))
	}
	group.Wait()
	fmt.Printf(" %d connections", connections)
}

func serveDown(s *session) {
	written, err := io.Copy(s, newPattern(s.seed, downBytes))
	check(err)
	if written != downBytes {
		fail("%d bytes written", written)
	}
}

// Read in pieces of any size.
func callDown(s *session) {
	reader := readerOf(func(buffer []byte) (int, error) {
		return s.Read(buffer[:1+s.rng.Intn(len(buffer))])
	})
	demand(reader, s.seed, downBytes)
	ends(s)
	fmt.Printf(" %d bytes", downBytes)
}

type readerOf func([]byte) (int, error)

func (r readerOf) Read(buffer []byte) (int, error) {
	return r(buffer)
}

func serveHalfClose(s *session) {
	hash, length := hashToEnd(s)
	_, err := fmt.Fprintf(s, "%d bytes, %x", length, hash)
	check(err)
	check(s.CloseWrite())
}

func callHalfClose(s *session) {
	_, err := io.Copy(s, newPattern(s.seed, 3<<20))
	check(err)
	check(s.CloseWrite())
	if _, err := s.Write([]byte{1}); err == nil {
		fail("a write after the end")
	}
	text, err := io.ReadAll(s)
	check(err)
	fmt.Printf(" %s", text)
}

// writev.
func callVectors(s *session) {
	const pieces = 200
	all := bytesOf(s.seed, pieces*700)
	for round := 0; round < 10; round++ {
		var buffers net.Buffers
		for index := 0; index < pieces; index++ {
			buffers = append(buffers, all[index*700:(index+1)*700])
		}
		go func() {
			written, err := buffers.WriteTo(s.TCPConn)
			check(err)
			if written != int64(len(all)) {
				fail("%d bytes written", written)
			}
		}()
		demand(s, s.seed, len(all))
	}
	fmt.Printf(" %d vectors", 10)
}
