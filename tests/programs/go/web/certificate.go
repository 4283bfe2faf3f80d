// A certificate of the server's own, which the client reads from the folder; and bytes that both ends know.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func certify(folder string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true,

		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	bytes, err := x509.MarshalECPrivateKey(key)
	check(err)
	write(filepath.Join(folder, "key.pem"), "EC PRIVATE KEY", bytes)
	write(filepath.Join(folder, "cert.pem"), "CERTIFICATE", certificate)
}

func write(name, kind string, bytes []byte) {
	check(os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
}

func trust(folder string) *tls.Config {
	bytes, err := os.ReadFile(filepath.Join(folder, "cert.pem"))
	check(err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes) {
		panic("web: no certificate")
	}
	return &tls.Config{RootCAs: pool}
}

type pattern struct {
	at, end int
}

func newPattern(length int) *pattern {
	return &pattern{0, length}
}

func (p *pattern) Read(buffer []byte) (int, error) {
	if p.at == p.end {
		return 0, io.EOF
	}
	if len(buffer) > p.end-p.at {
		buffer = buffer[:p.end-p.at]
	}
	for index := range buffer {
		buffer[index] = byte((p.at + index) * 131 >> 3)
	}
	p.at += len(buffer)
	return len(buffer), nil
}
