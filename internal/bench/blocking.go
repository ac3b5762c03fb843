package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A blocking is a TCP connection whose reads and writes wait in the kernel.
type blocking struct{ fd int }

// newBlocking takes nc over.
func newBlocking(nc net.Conn) (*blocking, error) {
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &blocking{}
	cerr := raw.Control(func(fd uintptr) {
		if b.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(b.fd, false)
		}
	})
	return b, errors.Join(cerr, err)
}

// dialBlocking connects to a tcpServer.
func dialBlocking(addr string, what uint32) (*blocking, error) {
	nc, err := dial(addr)
	if err != nil {
		return nil, err
	}
	b, err := newBlocking(nc)
	if err != nil {
		return nil, err
	}
	return b, binary.Write(b, binary.BigEndian, ask{What: what})
}

// close ends the connection.
func (b *blocking) close() { unix.Close(b.fd) }

// Read implements io.Reader.
func (b *blocking) Read(p []byte) (int, error) {
	n, err := unix.Read(b.fd, p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), os.NewSyscallError("read", err)
}

// Write implements io.Writer.
func (b *blocking) Write(p []byte) (int, error) {
	n, err := unix.Write(b.fd, p)
	return max(n, 0), os.NewSyscallError("write", err)
}

// A span is a part of a file.
type span struct{ Off, Len uint64 }

// spanSize is the bytes of a span.
const spanSize = 16

// send sends the file position of p and, if too is true, p.
func (b *blocking) send(off int64, p []byte, too bool) error {
	head := binary.BigEndian.AppendUint64(make([]byte, 0, spanSize), uint64(off))
	head = binary.BigEndian.AppendUint64(head, uint64(len(p)))
	if !too {
		_, err := b.Write(head)
		return err
	}
	_, err := unix.Writev(b.fd, [][]byte{head, p})
	return os.NewSyscallError("writev", err)
}

// receive reads a position in the file.
func (b *blocking) receive(head []byte) (s span, err error) {
	if _, err = io.ReadFull(b, head[:spanSize]); err != nil {
		return s, err
	}
	s = span{binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:])}
	if s.Len > block || s.Off > fileSize-s.Len {
		return s, io.ErrUnexpectedEOF
	}
	return s, nil
}
