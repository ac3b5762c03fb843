package iwarp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// serverEnv makes this program a benchmark's server, with the kind that the
// variable names. Client and server are then separate processes, as in
// production.
const serverEnv = "IWARP_BENCH_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverEnv); kind != "" {
		if err := benchServer(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	fileSize = 256 << 20 // bytes in the mapped file that the server sends
	callLen  = 128       // bytes in a call and in a reply
	maxSlots = 64        // concurrent calls
)

// benchServer serves until its standard input ends.
func benchServer(kind string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	file, err := mappedFile()
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(kind, "tcp"):
		go tcpServer(l, kind, file)
	case kind == "crc":
		go iwarpServer(deviceWith(Config{CRC: mpa.CRCOn}).NewListener(l), file)
	default:
		go iwarpServer(deviceWith(Config{CRC: mpa.CRCOff}).NewListener(l), file)
	}
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// mappedFile returns a mapping of a file in memory.
func mappedFile() ([]byte, error) {
	fd, err := unix.MemfdCreate("bench", 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, fileSize); err != nil {
		return nil, err
	}
	file, err := unix.Mmap(fd, 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	for i := 0; i < len(file); i += 4096 {
		binary.LittleEndian.PutUint64(file[i:], uint64(i))
	}
	return file, err
}

// tcpServer is the baseline: a stream with 1 MiB writes out of the mapping, or
// 4 KiB for each call.
func tcpServer(l net.Listener, kind string, file []byte) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		size := 1 << 20
		if kind == "tcp calls" {
			size = 4096
		}
		call := make([]byte, callLen)
		for at := 0; err == nil; at = (at + size) % fileSize {
			if kind == "tcp calls" {
				if _, err = io.ReadFull(c, call); err != nil {
					break
				}
			}
			_, err = c.Write(file[at:][:size])
		}
		c.Close()
	}
}

// A responderBench answers each call on the connection's reader goroutine: with
// an RDMA Write from the file, if the call requests data, and a Send.
type responderBench struct {
	conn    rdma.Conn
	ready   chan struct{}
	file    []byte
	data    [maxSlots][1][]byte
	replies [maxSlots][1][]byte
}

func iwarpServer(l *Listener, file []byte) {
	for {
		req, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		s := &responderBench{ready: make(chan struct{}), file: file}
		for i := range s.replies {
			s.replies[i][0] = make([]byte, callLen)
			s.replies[i][0][0] = byte(i)
		}
		if s.conn, err = req.Accept(rdma.ConnConfig{Handler: s, Recvs: 1 << 30}); err == nil {
			close(s.ready)
		}
	}
}

// A benchCall asks for size bytes from the file, at an offset.
type benchCall struct {
	slot     byte
	stag     rdma.STag
	size, at int
}

func (c benchCall) appendTo(b []byte) []byte {
	b = append(b, c.slot)
	b = binary.BigEndian.AppendUint32(b, uint32(c.stag))
	b = binary.BigEndian.AppendUint32(b, uint32(c.size))
	b = binary.BigEndian.AppendUint32(b, uint32(c.at))
	return b[:callLen]
}

func parseBenchCall(b []byte) benchCall {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	return benchCall{slot: b[0], stag: rdma.STag(word(1)), size: int(word(5)), at: int(word(9))}
}

func (s *responderBench) Receive(m rdma.Recv) {
	<-s.ready
	c := parseBenchCall(m.Buf.B)
	m.Buf.Release()
	var wrs [2]rdma.WR
	n := 0
	if c.size > 0 {
		s.data[c.slot][0] = s.file[c.at:][:c.size]
		wrs[n] = rdma.WR{Op: rdma.OpWrite, Data: s.data[c.slot][:], Remote: rdma.Remote{STag: c.stag}}
		n++
	}
	wrs[n] = rdma.WR{Op: rdma.OpSend, Data: s.replies[c.slot][:]}
	_ = s.conn.Post(wrs[:n+1]...) // an error appears at the other end
}

func (s *responderBench) Closed(error) {}
