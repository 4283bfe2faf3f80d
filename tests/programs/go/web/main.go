// Servers and clients of net/http, HTTP/2 with TLS, and net/rpc.
//
//	web serve FOLDER HTTP TLS RPC     three ports, until its standard input ends; its certificate goes into the folder
//	web call FOLDER HTTP TLS RPC      checks what they answer
//	web fetch URL TIMES               the same file by several connections, so often by each
//	web load HTTP CONNECTIONS         requests on connections that stay, until the server has gone
//	web profile FOLDER HTTP           the same requests, with profiles of the CPU, goroutines and blocking
package main

import (
	"fmt"
	"io"
	"os"
)

// Where the servers listen.
type places struct {
	folder         string
	http, tls, rpc string
}

func main() {
	words := os.Args[1:]
	if len(words) == 5 {
		at := places{words[1], local(words[2]), local(words[3]), local(words[4])}
		switch words[0] {
		case "serve":
			serveHTTP(at)
			serveRPC(at)
			_, err := io.Copy(io.Discard, os.Stdin)
			check(err)
			shutdown()
			return
		case "call":
			callHTTP(at)
			callTLS(at)
			callRPC(at)
			return
		}
	}
	switch {
	case len(words) == 3 && words[0] == "load":
		load(local(words[1]), words[2])
	case len(words) == 3 && words[0] == "fetch":
		fetch(words[1], words[2])
	case len(words) == 3 && words[0] == "profile":
		profile(words[1], local(words[2]))
	default:
		panic("web serve | call FOLDER HTTP TLS RPC, web fetch URL TIMES, web load HTTP CONNECTIONS, web profile FOLDER HTTP")
	}
}

func local(port string) string {
	return "127.0.0.1:" + port
}

func check(err error) {
	if err != nil {
		panic(fmt.Sprintf("web: %v", err))
	}
}
