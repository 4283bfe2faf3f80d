// Round trips until the other end has gone, for tests that kill, signal or look at a program meanwhile.
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// So many connections at a time; a line a tenth of a second with the number of round trips so far, and one with the
// kinds of ends that they saw.
func forever(port int, ways string) {
	var trips atomic.Int64
	var group sync.WaitGroup
	for index := 0; index < number(ways); index++ {
		group.Add(1)
		go func(s *session) {
			defer group.Done()
			tripUntilEnd(s, &trips)
		}(open(port, numberOf("echo"), int64(index)))
	}
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			fmt.Printf("%d round trips\n", trips.Load())
		}
	}()
	group.Wait()
	fmt.Println("gone")
}

func tripUntilEnd(s *session, trips *atomic.Int64) {
	sent, received := bytesOf(s.seed, 200), make([]byte, 200)
	for {
		if _, err := s.Write(sent); gone(err) {
			return
		}
		for got := 0; got < len(sent); {
			length, err := s.Read(received[got:])
			if gone(err) {
				return
			}
			got += length
		}
		if string(received) != string(sent) {
			fail("an echo differs")
		}
		trips.Add(1)
	}
}

// A connection whose other end was killed ends, is reset, or refuses bytes.
func gone(err error) bool {
	if err == nil {
		return false
	}
	switch kind := kindOf(err); kind {
	case "end", "reset", "pipe":
		return true
	default:
		fmt.Fprintln(os.Stderr, kind)
		panic(kind)
	}
}

// Each connection has a goroutine that waits for bytes that never come.
func rest(port, connections int) {
	for index := 0; index < connections; index++ {
		s := open(port, numberOf("echo"), int64(index))
		for trip := 0; trip < 100; trip++ {
			s.roundTrip(100)
		}
		go s.Read(make([]byte, 1))
	}
	fmt.Println("at rest")
	_, err := io.Copy(io.Discard, os.Stdin)
	check(err)
}
