// Sockets that are none of ulsock's, in the same epoll set: UDP with and without a connection, Unix datagrams.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

func callDatagrams(s *session) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	defer server.Close()
	go answerDatagrams(server)
	client, err := net.Dial("udp", server.LocalAddr().String())
	check(err)
	defer client.Close()
	folder := temporary()
	defer os.RemoveAll(folder)
	name := &net.UnixAddr{Name: filepath.Join(folder, "datagrams"), Net: "unixgram"}
	unix, err := net.ListenUnixgram("unixgram", name)
	check(err)
	defer unix.Close()
	sender, err := net.DialUnix("unixgram", nil, name)
	check(err)
	defer sender.Close()
	for trip := 0; trip < 300; trip++ {
		sent := bytesOf(s.seed+int64(trip), 1+s.rng.Intn(1000))
		through(client, client, sent)
		through(sender, unix, sent)
		s.roundTrip(len(sent))
	}
	fmt.Printf(" %d of each kind", 300)
}

func answerDatagrams(server *net.UDPConn) {
	buffer := make([]byte, 2000)
	for {
		length, _, _, address, err := server.ReadMsgUDP(buffer, nil)
		if err != nil {
			return
		}
		_, _, err = server.WriteMsgUDP(buffer[:length], nil, address)
		check(err)
	}
}

func through(in, out net.Conn, sent []byte) {
	_, err := in.Write(sent)
	check(err)
	buffer := make([]byte, 2000)
	length, err := out.Read(buffer)
	check(err)
	if string(buffer[:length]) != string(sent) {
		fail("another datagram")
	}
}
