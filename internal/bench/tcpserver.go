package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// blockSize is the size in bytes for one read or write in streams.
const blockSize = 1 << 20

// Requests in the first message from a TCP client.
const (
	streamHot    = iota // a stream from one buffer of blockSize
	streamMapped        // a file's stream from its mapping, repeated
	replyPings          // for each 128 bytes, a reply with the given length
	sendSpans           // for each fileSpan, the file's bytes in it
	storeSpans          // accepts spans with their bytes for another file; an empty span requests one byte
)

// request is the first message from a client.
type request struct{ What, Reply uint32 }

// runTCPServer serves raw TCP: the highest speed between two processes on this
// host. Its arguments are a file to send and a file to overwrite.
func runTCPServer(args []string) error {
	l, err := listenReno()
	if err != nil {
		return err
	}
	file, err := mapFile(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("ready tcp=%s\n", l.Addr())
	return serveEach(l, func(c net.Conn) {
		var a request
		if binary.Read(c, binary.BigEndian, &a) == nil {
			serveRequest(c, &a, file, args[1])
		}
	})
}

// serveEach serves a listener's connections, until it fails.
func serveEach(l net.Listener, serve func(net.Conn)) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { // ends when the client closes the connection
			defer c.Close()
			serve(c)
		}()
	}
}

// mapFile maps a file, and populates all its pages.
func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
}

func serveRequest(c net.Conn, a *request, file []byte, over string) {
	switch a.What {
	case sendSpans:
		sendBlocks(c, file)
		return
	case storeSpans:
		storeWrites(c, over)
		return
	case streamHot:
		file = make([]byte, blockSize)
	}
	if a.What != replyPings {
		for n := 0; ; n = (n + blockSize) % len(file) {
			if _, err := c.Write(file[n:][:blockSize]); err != nil {
				return
			}
		}
	}
	request, reply := make([]byte, pingSize), make([]byte, a.Reply)
	for {
		if _, err := io.ReadFull(c, request); err != nil {
			return
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// sendBlocks answers reads from runTCPFS.
func sendBlocks(nc net.Conn, file []byte) {
	c, err := newBlocking(nc)
	if err != nil {
		return
	}
	defer c.close()
	head := make([]byte, spanSize)
	for {
		s, err := c.receiveSpan(head)
		if err != nil {
			return
		}
		if _, err := c.Write(file[s.Off:][:s.Len]); err != nil {
			return
		}
	}
}

// storeWrites stores writes from runTCPFS.
func storeWrites(nc net.Conn, name string) {
	c, err := newBlocking(nc)
	if err != nil {
		return
	}
	defer c.close()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	b := make([]byte, blockSize)
	for {
		s, err := c.receiveSpan(b)
		if err != nil {
			return
		}
		if s.Len == 0 {
			_, err = c.Write(b[:1])
		} else if _, err = io.ReadFull(c, b[:s.Len]); err == nil {
			_, err = f.WriteAt(b[:s.Len], int64(s.Off))
		}
		if err != nil {
			return
		}
	}
}
