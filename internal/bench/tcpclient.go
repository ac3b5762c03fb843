package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
)

// pingSize is a request of a ping-pong, in octets: a call with a file handle.
const pingSize = 128

// depth is how many blocks a stream is read into in turns: what a client with so
// many calls under way has.
const depth = 16

// tcpClient uses a tcpServer. Its arguments are the server's address, what to do
// (hot, mapped, or the octets of a ping-pong's replies), and for how long.
func tcpClient(args []string) error {
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	a := ask{What: askHot}
	if args[1] == "mapped" {
		a.What = askMapped
	} else if n, err := strconv.ParseUint(args[1], 10, 20); err == nil {
		a = ask{askPong, uint32(n)}
	} else if args[1] != "hot" {
		return fmt.Errorf("what is %q?", args[1])
	}
	if err := binary.Write(c, binary.BigEndian, a); err != nil {
		return err
	}
	if a.What == askPong {
		return ping(c, int(a.Reply), args[2])
	}
	return stream(c, args[2])
}

// stream reads blocks.
func stream(c net.Conn, d string) error {
	into := make([]byte, depth*block)
	if _, err := io.ReadFull(c, into); err != nil { // the buffers are there, and the stream runs
		return err
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for i := 0; ; i = (i + 1) % depth {
		if _, err := io.ReadFull(c, into[i*block:][:block]); err != nil {
			return err
		}
		if !k.tick(block) {
			return k.print()
		}
	}
}

// ping sends requests and waits for replies, one at a time.
func ping(c net.Conn, reply int, d string) error {
	request, into := make([]byte, pingSize), make([]byte, reply)
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for {
		if _, err := c.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, into); err != nil {
			return err
		}
		if !k.tick(reply) {
			return k.print()
		}
	}
}
