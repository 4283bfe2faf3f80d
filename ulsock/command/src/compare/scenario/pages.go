// pages server PORT
// pages get HOST PORT COUNT CONNECTIONS
//
// A server and a client of Go's package net/http, on connections that stay. The client prints one line of JSON. The server
// ends at SIGTERM.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const size = 612

func main() {
	words := os.Args[1:]
	switch {
	case len(words) == 2 && words[0] == "server":
		serve(net.JoinHostPort("", words[1]))
	case len(words) == 5 && words[0] == "get":
		get("http://"+net.JoinHostPort(words[1], words[2])+"/page", number(words[3]), number(words[4]))
	default:
		panic("pages server PORT | get HOST PORT COUNT CONNECTIONS")
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
	page := bytes.Repeat([]byte("x"), size)
	http.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		w.Write(page)
	})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		check(http.ListenAndServe(address, nil))
	}()
	<-ended
}

func get(url string, count, connections int) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	each := (count + connections - 1) / connections
	var clients sync.WaitGroup
	start := time.Now()
	for index := 0; index < connections; index++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for request := 0; request < each; request++ {
				ask(client, url)
			}
		}()
	}
	clients.Wait()
	took := time.Since(start).Seconds()
	fmt.Printf("{\"messages\":%d,\"seconds\":%.6f}\n", each*connections, took)
}

func ask(client *http.Client, url string) {
	answer, err := client.Get(url)
	check(err)
	length, err := io.Copy(io.Discard, answer.Body)
	check(err)
	check(answer.Body.Close())
	if length != size {
		panic(fmt.Sprintf("%s: %d bytes", answer.Status, length))
	}
}
