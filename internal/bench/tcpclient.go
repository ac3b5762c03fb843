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

// pingSize is a ping-pong request's size in bytes: a call with a file handle.
const pingSize = 128

// pipelineDepth is the number of buffers into which a stream is read in rotation,
// like a client with that many calls in flight.
const pipelineDepth = 16

// runTCPClient runs one test against a TCP server. Its arguments are the server's
// address, the test (hot, mapped, mapped*N on N connections at once, stored*FILE
// over an existing file, asked*N in N-byte blocks, or a ping-pong's reply size),
// and the time.
func runTCPClient(args []string) error {
	if n, ok := strings.CutPrefix(args[1], "mapped*"); ok {
		n, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return err
		}
		return readStreams(args[0], int(n), args[2])
	}
	if n, ok := strings.CutPrefix(args[1], "asked*"); ok {
		n, err := strconv.ParseUint(n, 10, 32)
		if err != nil || n == 0 || n > blockSize {
			return fmt.Errorf("%s: a block must have 1 to %d bytes", args[1], blockSize)
		}
		return requestBlocks(args[0], int(n), args[2])
	}
	c, err := dialReno(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	a := request{What: streamHot}
	over, stores := strings.CutPrefix(args[1], "stored*")
	if stores || args[1] == "mapped" {
		a.What = streamMapped
	} else if n, err := strconv.ParseUint(args[1], 10, 20); err == nil {
		a = request{replyPings, uint32(n)}
	} else if args[1] != "hot" {
		return fmt.Errorf("unknown request %q", args[1])
	}
	if err := binary.Write(c, binary.BigEndian, a); err != nil {
		return err
	}
	switch {
	case a.What == replyPings:
		return runPings(c, int(a.Reply), args[2])
	case stores:
		return storeStream(c, over, args[2])
	}
	return readStream(c, args[2])
}

// readStream reads blocks for the time d.
func readStream(c net.Conn, d string) error {
	return readBlocks(c, d, pipelineDepth, func(int, []byte) error { return nil })
}

// storeStream reads blocks, and writes each over a file's next one: a WRITE without
// its protocol. It uses one buffer, which stays in the processor's caches; with 16
// it would be slower than WRITE. The file's length is a multiple of the block size.
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
	blocks := int(info.Size() / blockSize)
	if blocks == 0 {
		return fmt.Errorf("%s has no block of %d bytes", over, blockSize)
	}
	return readBlocks(c, d, 1, func(i int, b []byte) error {
		_, err := f.WriteAt(b, int64(i%blocks)*blockSize)
		return err
	})
}

// readBlocks reads blocks into n buffers in rotation, and calls use for each.
func readBlocks(c net.Conn, d string, n int, use func(i int, b []byte) error) error {
	into := make([]byte, n*blockSize)
	for i := range pipelineDepth { // the buffers are mapped, and the stream runs
		if _, err := io.ReadFull(c, into[i%n*blockSize:][:blockSize]); err != nil {
			return err
		}
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		b := into[i%n*blockSize:][:blockSize]
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if err := use(i, b); err != nil {
			return err
		}
		if !k.recordOp(blockSize) {
			return k.printResult()
		}
	}
}

// readStreams reads blocks on n connections, with one buffer for each, like a
// client with one call in flight on each connection.
func readStreams(addr string, n int, d string) error {
	into := make([]byte, n*blockSize)
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := dialReno(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := binary.Write(c, binary.BigEndian, request{What: streamMapped}); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, into[i*blockSize:][:blockSize]); err != nil { // the stream runs
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
				if _, err := io.ReadFull(c, into[i*blockSize:][:blockSize]); err != nil {
					first <- err
					return
				}
				mu.Lock()
				more = k.recordOp(blockSize)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	select {
	case err := <-first:
		return err
	default:
		return k.printResult()
	}
}

// requestBlocks requests and reads n-byte blocks, with pipelineDepth requests in
// flight: a READ without its protocol.
func requestBlocks(addr string, n int, d string) error {
	c, err := dialBlocking(addr, sendSpans)
	if err != nil {
		return err
	}
	defer c.close()
	var next int64
	request := func(into []byte) error {
		err := c.sendSpan(next, into, false)
		next = (next + int64(n)) % (fileSize - int64(n))
		return err
	}
	into := make([]byte, pipelineDepth*n)
	for i := range pipelineDepth {
		if err := request(into[i*n:][:n]); err != nil {
			return err
		}
	}
	k, err := startClock(d)
	if err != nil {
		return err
	}
	for i := 0; ; i = (i + 1) % pipelineDepth {
		b := into[i*n:][:n]
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		if !k.recordOp(n) {
			return k.printResult()
		}
		if err := request(b); err != nil {
			return err
		}
	}
}

// runPings sends requests and waits for replies, one at a time.
func runPings(c net.Conn, reply int, d string) error {
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
		if !k.recordOp(reply) {
			return k.printResult()
		}
	}
}
