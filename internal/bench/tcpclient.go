package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// pingSize is a request of a ping-pong, in bytes: a call with a file handle.
const pingSize = 128

// depth is how many blocks a stream is read into alternately: what a client with so
// many calls under way has.
const depth = 16

// tcpClient uses a tcpServer. Its arguments are the server's address, what to do
// (hot, mapped, mapped*N on N connections at once, or the bytes of a ping-pong's
// replies), and for how long.
func tcpClient(args []string) error {
	if n, ok := strings.CutPrefix(args[1], "mapped*"); ok {
		n, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return err
		}
		return streams(args[0], int(n), args[2])
	}
	c, err := dial(args[0])
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

// streams reads blocks on n connections, each into one of its own: what a client
// has with one call under way on each.
func streams(addr string, n int, d string) error {
	into := make([]byte, n*block)
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := binary.Write(c, binary.BigEndian, ask{What: askMapped}); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, into[i*block:][:block]); err != nil { // it runs
			return err
		}
		conns[i] = c
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	var (
		mu    sync.Mutex // guards the clock
		all   sync.WaitGroup
		first = make(chan error, n)
	)
	for i, c := range conns {
		all.Go(func() {
			for more := true; more; {
				if _, err := io.ReadFull(c, into[i*block:][:block]); err != nil {
					first <- err
					return
				}
				mu.Lock()
				more = k.tick(block)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	select {
	case err := <-first:
		return err
	default:
		return k.print()
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
