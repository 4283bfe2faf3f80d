// What Go's runtime does meanwhile: stacks that move, garbage collection, preemption, threads that end.
package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// Goroutines that are deep in recursion when they wait, with collections and preemptions all the time. A stack moves
// when it has become too small.
func callStacks(s *session) {
	before := debug.SetGCPercent(5)
	defer debug.SetGCPercent(before)
	stop := make(chan struct{})
	go spin(stop)
	go collect(stop)
	var group sync.WaitGroup
	for index := 0; index < 24; index++ {
		group.Add(1)
		go func(another *session) {
			defer group.Done()
			defer another.Close()
			for depth := 1; depth < 400; depth += 13 {
				descend(another, depth)
			}
		}(s.again(s.seed + int64(index)))
	}
	group.Wait()
	close(stop)
	fmt.Printf(" %d goroutines", 24)
}

// Each level has some bytes on the stack, which must be the same afterwards.
func descend(s *session, depth int) {
	var here [100]byte
	for index := range here {
		here[index] = byte(depth + index)
	}
	if depth%50 == 0 {
		s.roundTrip(1 + depth)
	}
	if depth > 0 {
		descend(s, depth-1)
	}
	for index := range here {
		if here[index] != byte(depth+index) {
			fail("a stack has changed")
		}
	}
}

// Computes without a call, so that it must be preempted by a signal.
func spin(stop chan struct{}) {
	for sum := 1; ; {
		for index := 0; index < 50_000_000; index++ {
			sum = sum*31 + index
		}
		select {
		case <-stop:
			return
		default:
		}
		if sum == 0 {
			fmt.Print("0")
		}
	}
}

func collect(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
			runtime.GC()
		}
	}
}

// Goroutines that keep their thread, which ends with them.
func callThreads(s *session) {
	const threads = 40
	for index := 0; index < threads; index++ {
		done := make(chan struct{})
		go func(another *session) {
			runtime.LockOSThread()
			defer close(done)
			defer another.Close()
			for trip := 0; trip < 100; trip++ {
				another.roundTrip(200)
			}
		}(s.again(s.seed + int64(index)))
		<-done
	}
	fmt.Printf(" %d threads", threads)
}

// A pointer to nothing is followed between round trips: the fault becomes a panic, which the program recovers from.
func callFaults(s *session) {
	const faults = 200
	for index := 0; index < faults; index++ {
		s.roundTrip(100)
		func() {
			defer func() {
				if recover() == nil {
					fail("no panic")
				}
			}()
			var none *session
			fmt.Print(none.port)
		}()
	}
	fmt.Printf(" %d faults", faults)
}
