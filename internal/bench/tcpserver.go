package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// block is the bytes of one read or write in streams.
const block = 1 << 20

// Requests in the first bytes of a tcpServer's client.
const (
	askHot    = iota // a stream from one buffer of a block
	askMapped        // a stream of a file from its mapping, over and over
	askPong          // for each 128 bytes, a reply of the given length
	askBlocks        // for each span, these bytes of the file
	askStore         // takes spans with their bytes for another file; an empty span asks for a byte
)

// ask is the first message of a client.
type ask struct{ What, Reply uint32 }

// tcpServer is raw TCP: the highest speed between two processes here. Its
// arguments are a file to send and a file to overwrite.
func tcpServer(args []string) error {
	l, err := listen()
	if err != nil {
		return err
	}
	file, err := mapped(args[0])
	if err != nil {
		return err
	}
	fmt.Printf("ready tcp=%s\n", l.Addr())
	return each(l, func(c net.Conn) {
		var a ask
		if binary.Read(c, binary.BigEndian, &a) == nil {
			serveTCP(c, &a, file, args[1])
		}
	})
}

// each serves the connections of a listener, until that fails.
func each(l net.Listener, serve func(net.Conn)) error {
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

// mapped maps a file, with all its pages.
func mapped(name string) ([]byte, error) {
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

func serveTCP(c net.Conn, a *ask, file []byte, over string) {
	switch a.What {
	case askBlocks:
		sendBlocks(c, file)
		return
	case askStore:
		store(c, over)
		return
	case askHot:
		file = make([]byte, block)
	}
	if a.What != askPong {
		for n := 0; ; n = (n + block) % len(file) {
			if _, err := c.Write(file[n:][:block]); err != nil {
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

// sendBlocks answers reads of tcpFS.
func sendBlocks(nc net.Conn, file []byte) {
	c, err := newBlocking(nc)
	if err != nil {
		return
	}
	defer c.close()
	head := make([]byte, spanSize)
	for {
		s, err := c.receive(head)
		if err != nil {
			return
		}
		if _, err := c.Write(file[s.Off:][:s.Len]); err != nil {
			return
		}
	}
}

// store takes writes of tcpFS.
func store(nc net.Conn, name string) {
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
	b := make([]byte, block)
	for {
		s, err := c.receive(b)
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
