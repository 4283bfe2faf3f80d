// A client of any server: the same file again and again, by several connections that stay.
package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"sync"
)

func fetch(url, times string) {
	count, err := strconv.Atoi(times)
	check(err)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	first := hashed(client, url)
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for index := 0; index < count; index++ {
				if again := hashed(client, url); again != first {
					panic("web: " + again + " after " + first)
				}
			}
		}()
	}
	group.Wait()
	fmt.Println(first)
}

func hashed(client *http.Client, url string) string {
	answer, err := client.Get(url)
	check(err)
	defer answer.Body.Close()
	hash := fnv.New64a()
	length, err := io.Copy(hash, answer.Body)
	check(err)
	return fmt.Sprintf("%s, %d bytes, %x", answer.Status, length, hash.Sum64())
}
