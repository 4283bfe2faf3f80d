// The HTTP servers: a page of text, an echo, bytes by number, a stream that is flushed, and a connection that is taken
// over.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

const page = "a page of a few words, as a service might answer\n"

var servers []*http.Server

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, page)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		// Of HTTP/1.1 no more can be read when an answer has begun.
		text, err := io.ReadAll(r.Body)
		check(err)
		w.Write(text)
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		length, err := strconv.Atoi(r.URL.Query().Get("n"))
		check(err)
		// Whoever asks may go before the end.
		io.Copy(w, newPattern(length))
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for index := 0; index < 20; index++ {
			fmt.Fprintf(w, "part %d\n", index)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	})
	mux.HandleFunc("/taken", takeOver)
	return mux
}

// The connection becomes an echo of lines.
func takeOver(w http.ResponseWriter, r *http.Request) {
	conn, both, err := w.(http.Hijacker).Hijack()
	check(err)
	defer conn.Close()
	both.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n")
	for {
		check(both.Flush())
		line, err := both.ReadString('\n')
		if err == io.EOF {
			return
		}
		check(err)
		both.WriteString(line)
	}
}

func serveHTTP(at places) {
	plain := &http.Server{Addr: at.http, Handler: handler()}
	secret := &http.Server{Addr: at.tls, Handler: handler()}
	servers = []*http.Server{plain, secret}
	certify(at.folder)
	go func() {
		stopped(plain.ListenAndServe())
	}()
	go func() {
		stopped(secret.ListenAndServeTLS(filepath.Join(at.folder, "cert.pem"), filepath.Join(at.folder, "key.pem")))
	}()
}

func stopped(err error) {
	if err != http.ErrServerClosed {
		check(err)
	}
}

func shutdown() {
	for _, server := range servers {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		check(server.Shutdown(ctx))
		cancel()
	}
}
