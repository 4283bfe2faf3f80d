// net/rpc with its own encoding: calls of many goroutines on one connection.
package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
)

// What can be called.
type Sums struct{}

// The numbers to add.
type Pair struct {
	Left, Right int
	Text        string
}

func (Sums) Add(pair Pair, sum *int) error {
	*sum = pair.Left + pair.Right
	return nil
}

func (Sums) Repeat(pair Pair, text *string) error {
	if pair.Left < 0 {
		return errors.New("less than nothing")
	}
	for index := 0; index < pair.Left; index++ {
		*text += pair.Text
	}
	return nil
}

func serveRPC(at places) {
	check(rpc.Register(Sums{}))
	listener, err := net.Listen("tcp", at.rpc)
	check(err)
	go rpc.Accept(listener)
}

func callRPC(at places) {
	client, err := rpc.Dial("tcp", at.rpc)
	check(err)
	defer client.Close()
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for index := 0; index < requests; index++ {
				var sum int
				check(client.Call("Sums.Add", Pair{Left: worker, Right: index}, &sum))
				if sum != worker+index {
					panic(sum)
				}
			}
		}(worker)
	}
	group.Wait()
	var text string
	check(client.Call("Sums.Repeat", Pair{Left: 3000, Text: "word "}, &text))
	err = client.Call("Sums.Repeat", Pair{Left: -1}, &text)
	fmt.Printf("rpc: %d calls, %d bytes, %v\n", workers*requests, len(text), err)
}
