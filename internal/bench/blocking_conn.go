package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A blockingConn is a TCP connection whose reads and writes wait in the kernel.
type blockingConn struct{ fd int }

// newBlocking takes ownership of nc.
func newBlocking(nc net.Conn) (*blockingConn, error) {
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &blockingConn{}
	cerr := raw.Control(func(fd uintptr) {
		if b.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(b.fd, false)
		}
	})
	return b, errors.Join(cerr, err)
}

// dialBlocking connects to a TCP server.
func dialBlocking(addr string, what uint32) (*blockingConn, error) {
	nc, err := dialReno(addr)
	if err != nil {
		return nil, err
	}
	b, err := newBlocking(nc)
	if err != nil {
		return nil, err
	}
	return b, binary.Write(b, binary.BigEndian, request{What: what})
}

// close closes the connection.
func (b *blockingConn) close() { unix.Close(b.fd) }

// Read implements io.Reader.
func (b *blockingConn) Read(p []byte) (int, error) {
	n, err := unix.Read(b.fd, p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), os.NewSyscallError("read", err)
}

// Write implements io.Writer.
func (b *blockingConn) Write(p []byte) (int, error) {
	n, err := unix.Write(b.fd, p)
	return max(n, 0), os.NewSyscallError("write", err)
}

// A fileSpan is a byte range of a file.
type fileSpan struct{ Off, Len uint64 }

// spanSize is the encoded size of a fileSpan in bytes.
const spanSize = 16

// sendSpan sends the byte range of p in the file and, if withData is set, p.
func (b *blockingConn) sendSpan(off int64, p []byte, withData bool) error {
	head := binary.BigEndian.AppendUint64(make([]byte, 0, spanSize), uint64(off))
	head = binary.BigEndian.AppendUint64(head, uint64(len(p)))
	if !withData {
		_, err := b.Write(head)
		return err
	}
	_, err := unix.Writev(b.fd, [][]byte{head, p})
	return os.NewSyscallError("writev", err)
}

// receiveSpan reads a byte range.
func (b *blockingConn) receiveSpan(head []byte) (s fileSpan, err error) {
	if _, err = io.ReadFull(b, head[:spanSize]); err != nil {
		return s, err
	}
	s = fileSpan{binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:])}
	if s.Len > blockSize || s.Off > fileSize-s.Len {
		return s, io.ErrUnexpectedEOF
	}
	return s, nil
}
