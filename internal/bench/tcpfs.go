package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mountReadAhead is the kernel's read-ahead in our mounts, in bytes.
const mountReadAhead = 8 << 20

// runTCPFS mounts a FUSE file system with the files big and over, whose bytes are
// at a TCP server: the limit for a mount without a protocol. Its arguments are the
// mount point and the server's address. A read sends an offset and waits in the
// kernel for the bytes. A write only sends; only fsync waits for a reply.
func runTCPFS(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a mount point and an address, not %q", args)
	}
	return serveFS(args[0], mountReadAhead, func() fs.InodeEmbedder { return &tcpFile{addr: args[1]} })
}

// raiseReadAhead sets the kernel's read-ahead in bytes, beyond the usual limit.
func raiseReadAhead(point string, size int) error {
	var st unix.Stat_t
	if err := unix.Stat(point, &st); err != nil {
		return err
	}
	name := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	return os.WriteFile(name, fmt.Append(nil, size>>10), 0)
}

// A tcpFile is a file at a TCP server.
type tcpFile struct {
	memoryFile
	addr string

	mu        sync.Mutex
	readConns []*blockingConn // connections for reads
	writeConn *blockingConn   // connection for writes
}

var (
	_ fs.NodeReader  = (*tcpFile)(nil)
	_ fs.NodeWriter  = (*tcpFile)(nil)
	_ fs.NodeFsyncer = (*tcpFile)(nil)
)

// Read requests bytes; concurrent reads use separate connections.
func (f *tcpFile) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	into = into[:min(int64(len(into)), max(fileSize-off, 0))]
	c, err := f.takeReader()
	if err == nil {
		err = c.sendSpan(off, into, false)
	}
	if err == nil {
		_, err = io.ReadFull(c, into)
	}
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readConns = append(f.readConns, c)
	return fuse.ReadResultData(into), 0
}

func (f *tcpFile) takeReader() (*blockingConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.readConns) - 1
	if last < 0 {
		return dialBlocking(f.addr, sendSpans)
	}
	c := f.readConns[last]
	f.readConns = f.readConns[:last]
	return c, nil
}

// Write sends bytes.
func (f *tcpFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.sendWrite(data, off)
	return uint32(len(data)), fs.ToErrno(err)
}

// sendWrite sends bytes on the connection for writes.
func (f *tcpFile) sendWrite(data []byte, off int64) (err error) {
	if f.writeConn == nil {
		if f.writeConn, err = dialBlocking(f.addr, storeSpans); err != nil {
			return err
		}
	}
	return f.writeConn.sendSpan(off, data, true)
}

// Fsync waits until the server has all bytes.
func (f *tcpFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.sendWrite(nil, 0)
	if err == nil {
		_, err = io.ReadFull(f.writeConn, make([]byte, 1))
	}
	return fs.ToErrno(err)
}
