// The HTTP clients: on connections that stay and on new ones, of HTTP/1.1 and HTTP/2.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	workers  = 12
	requests = 150
)

func callHTTP(at places) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	all("http/1.1", client, "http://"+at.http)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for index := 0; index < 50; index++ {
		get(fresh, "http://"+at.http+"/page", page)
	}
	fmt.Println("http/1.1: 50 connections of one request each")
	taken(at.http)
}

func callTLS(at places) {
	one := &http.Client{Transport: &http.Transport{TLSClientConfig: trust(at.folder), MaxIdleConnsPerHost: workers}}
	all("https, http/1.1", one, "https://"+at.tls)
	two := &http.Client{Transport: &http.Transport{TLSClientConfig: trust(at.folder), ForceAttemptHTTP2: true}}
	all("https, http/2", two, "https://"+at.tls)
}

// Everything that the handler has, by several goroutines at a time.
func all(name string, client *http.Client, base string) {
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for index := 0; index < requests; index++ {
				get(client, base+"/page", page)
				post(client, base+"/echo", worker*1000+index*37)
			}
		}(worker)
	}
	group.Wait()
	fmt.Printf("%s: %d requests", name, 2*workers*requests)
	large(client, base)
	get(client, base+"/stream", stream())
	cancelled(client, base)
	answer := ask(client, base+"/version")
	fmt.Printf(", %s\n", answer)
	client.CloseIdleConnections()
}

func ask(client *http.Client, url string) string {
	answer, err := client.Get(url)
	check(err)
	return body(answer)
}

func body(answer *http.Response) string {
	text, err := io.ReadAll(answer.Body)
	check(err)
	check(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		panic(answer.Status)
	}
	return string(text)
}

func get(client *http.Client, url, wanted string) {
	if got := ask(client, url); got != wanted {
		panic(fmt.Sprintf("web: %q of %s", got, url))
	}
}

func post(client *http.Client, url string, length int) {
	sent, err := io.ReadAll(newPattern(length))
	check(err)
	answer, err := client.Post(url, "application/octet-stream", bytes.NewReader(sent))
	check(err)
	if got := body(answer); got != string(sent) {
		panic(fmt.Sprintf("web: an echo of %d bytes differs", length))
	}
}

func stream() string {
	var text strings.Builder
	for index := 0; index < 20; index++ {
		fmt.Fprintf(&text, "part %d\n", index)
	}
	return text.String()
}

func large(client *http.Client, base string) {
	const length = 12 << 20
	answer, err := client.Get(fmt.Sprintf("%s/bytes?n=%d", base, length))
	check(err)
	got, wanted := fnv.New64a(), fnv.New64a()
	copied, err := io.Copy(got, answer.Body)
	check(err)
	check(answer.Body.Close())
	_, err = io.Copy(wanted, newPattern(length))
	check(err)
	if copied != length || got.Sum64() != wanted.Sum64() {
		panic("web: other bytes")
	}
	fmt.Printf(", %d bytes", copied)
}

// A request that ends in its middle. The connection of HTTP/2 goes on.
func cancelled(client *http.Client, base string) {
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, "GET", base+"/bytes?n=100000000", nil)
	check(err)
	answer, err := client.Do(request)
	check(err)
	_, err = io.ReadFull(answer.Body, make([]byte, 100_000))
	check(err)
	cancel()
	_, err = io.Copy(io.Discard, answer.Body)
	fmt.Printf(", cancelled %v", errors.Is(err, context.Canceled))
	answer.Body.Close()
	get(client, base+"/page", page)
}

// A connection that stops to be HTTP.
func taken(address string) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	check(err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET /taken HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	check(err)
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	check(err)
	for index := 0; index < 1000; index++ {
		line := fmt.Sprintf("line %d\n", index)
		_, err := io.WriteString(conn, line)
		check(err)
		got, err := reader.ReadString('\n')
		check(err)
		if got != line {
			panic(got)
		}
	}
	fmt.Printf("taken over: %d\n", answer.StatusCode)
}
