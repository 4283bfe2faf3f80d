// Requests for tests that look at, signal or kill a program meanwhile, and profiles of one.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func load(address, ways string) {
	connections, err := strconv.Atoi(ways)
	check(err)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	var done atomic.Int64
	var group sync.WaitGroup
	for index := 0; index < connections; index++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				answer, err := client.Get("http://" + address + "/page")
				if err != nil {
					return
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil {
					return
				}
				if string(text) != page {
					panic(string(text))
				}
				done.Add(1)
			}
		}()
	}
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			fmt.Printf("%d requests\n", done.Load())
		}
	}()
	group.Wait()
	fmt.Println("gone")
}

// SIGPROF comes a hundred times a second, in whatever is under way.
func profile(folder, address string) {
	runtime.SetBlockProfileRate(1)
	var cpu bytes.Buffer
	check(pprof.StartCPUProfile(&cpu))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	var group sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for index := 0; time.Now().Before(end); index++ {
				post(client, "http://"+address+"/echo", 1+worker*100)
			}
		}(worker)
	}
	group.Wait()
	pprof.StopCPUProfile()
	check(os.WriteFile(filepath.Join(folder, "cpu.pprof"), cpu.Bytes(), 0o600))
	fmt.Printf("cpu: %v", contains(cpu.Bytes(), "main.post"))
	for _, name := range []string{"goroutine", "block"} {
		var text bytes.Buffer
		check(pprof.Lookup(name).WriteTo(&text, 0))
		fmt.Printf(", %s: %v", name, contains(text.Bytes(), "main.profile"))
	}
	fmt.Println()
}

// Whether a profile names a function.
func contains(profile []byte, name string) bool {
	reader, err := gzip.NewReader(bytes.NewReader(profile))
	check(err)
	all, err := io.ReadAll(reader)
	check(err)
	return bytes.Contains(all, []byte(name))
}
