package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// pingSize is the size of a ping-pong's request, in bytes: a call with a file
// handle.
const pingSize = 128

// depth is the number of blocks that a stream is read into alternately, as by a
// client with that many calls under way.
const depth = 16

// tcpClient uses a tcpServer. Its arguments are the server's address, the test
// (hot, mapped, mapped*N on N connections at once, stored*FILE over an existing
// file, asked*N in blocks of N bytes, or the bytes of a ping-pong's replies), and
// the time.
func tcpClient(args []string) error {
	if n, ok := strings.CutPrefix(args[1], "mapped*"); ok {
		n, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return err
		}
		return streams(args[0], int(n), args[2])
	}
	if n, ok := strings.CutPrefix(args[1], "asked*"); ok {
		n, err := strconv.ParseUint(n, 10, 32)
		if err != nil || n == 0 || n > block {
			return fmt.Errorf("%s: a block has 1 to %d bytes", args[1], block)
		}
		return asked(args[0], int(n), args[2])
	}
	c, err := dial(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	a := ask{What: askHot}
	over, stores := strings.CutPrefix(args[1], "stored*")
	if stores || args[1] == "mapped" {
		a.What = askMapped
	} else if n, err := strconv.ParseUint(args[1], 10, 20); err == nil {
		a = ask{askPong, uint32(n)}
	} else if args[1] != "hot" {
		return fmt.Errorf("unknown request %q", args[1])
	}
	if err := binary.Write(c, binary.BigEndian, a); err != nil {
		return err
	}
	switch {
	case a.What == askPong:
		return ping(c, int(a.Reply), args[2])
	case stores:
		return storeStream(c, over, args[2])
	}
	return stream(c, args[2])
}

// stream reads blocks.
func stream(c net.Conn, d string) error {
	return take(c, d, depth, func(int, []byte) error { return nil })
}

// storeStream reads blocks, and writes each over a file's next one: a WRITE without its
// protocol. It has one buffer, which stays in the processor's caches, and with 16 would be
// slower than WRITE. The file's length is of whole blocks.
func storeStream(c net.Conn, over, d string) error {
	f, err := os.OpenFile(over, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	blocks := int(info.Size() / block)
	if blocks == 0 {
		return fmt.Errorf("%s has no block of %d bytes", over, block)
	}
	return take(c, d, 1, func(i int, b []byte) error {
		_, err := f.WriteAt(b, int64(i%blocks)*block)
		return err
	})
}

// take reads blocks into n buffers in rotation, and has each used.
func take(c net.Conn, d string, n int, use func(i int, b []byte) error) error {
	into := make([]byte, n*block)
	for i := range depth { // the buffers are mapped, and the stream runs
		if _, err := io.ReadFull(c, into[i%n*block:][:block]); err != nil {
			return err
		}
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		b := into[i%n*block:][:block]
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if err := use(i, b); err != nil {
			return err
		}
		if !k.tick(block) {
			return k.print()
		}
	}
}

// streams reads blocks on n connections, with one block for each, as a client
// with one call under way on each connection.
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
		if _, err := io.ReadFull(c, into[i*block:][:block]); err != nil { // the stream runs
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

// asked reads blocks of n bytes, each of which it asks for, with depth requests
// under way: a READ without its protocol.
func asked(addr string, n int, d string) error {
	c, err := dialBlocking(addr, askBlocks)
	if err != nil {
		return err
	}
	defer c.close()
	var next int64
	request := func(into []byte) error {
		err := c.send(next, into, false)
		next = (next + int64(n)) % (fileSize - int64(n))
		return err
	}
	into := make([]byte, depth*n)
	for i := range depth {
		if err := request(into[i*n:][:n]); err != nil {
			return err
		}
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for i := 0; ; i = (i + 1) % depth {
		b := into[i*n:][:n]
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if !k.tick(n) {
			return k.print()
		}
		if err := request(b); err != nil {
			return err
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
