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

// farAhead is the kernel's read-ahead in a mount of ours, in bytes.
const farAhead = 8 << 20

// tcpFS is memFS with the bytes at a tcpServer: the limit of a mount without a
// protocol. Its arguments are the mount point and the server's address. A read
// sends an offset and waits in the kernel for the bytes. A write only sends;
// only fsync waits for an answer.
func tcpFS(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("not a mount point and an address: %q", args)
	}
	return serveFS(args[0], farAhead, func() fs.InodeEmbedder { return &tcpFile{addr: args[1]} })
}

// readFarther sets the kernel's read-ahead in bytes, beyond the usual limit.
func readFarther(point string, size int) error {
	var st unix.Stat_t
	if err := unix.Stat(point, &st); err != nil {
		return err
	}
	name := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	return os.WriteFile(name, fmt.Append(nil, size>>10), 0)
}

// A tcpFile is a file at a tcpServer.
type tcpFile struct {
	memFile
	addr string

	mu   sync.Mutex
	free []*blocking // to read by
	out  *blocking   // to write by
}

var (
	_ fs.NodeReader  = (*tcpFile)(nil)
	_ fs.NodeWriter  = (*tcpFile)(nil)
	_ fs.NodeFsyncer = (*tcpFile)(nil)
)

// Read asks for bytes; concurrent reads use separate connections.
func (f *tcpFile) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	into = into[:min(int64(len(into)), max(fileSize-off, 0))]
	c, err := f.reader()
	if err == nil {
		err = c.send(off, into, false)
	}
	if err == nil {
		_, err = io.ReadFull(c, into)
	}
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, c)
	return fuse.ReadResultData(into), 0
}

func (f *tcpFile) reader() (*blocking, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.free) - 1
	if last < 0 {
		return dialBlocking(f.addr, askBlocks)
	}
	c := f.free[last]
	f.free = f.free[:last]
	return c, nil
}

// Write sends bytes.
func (f *tcpFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.put(data, off)
	return uint32(len(data)), fs.ToErrno(err)
}

// put sends bytes on the connection for writes.
func (f *tcpFile) put(data []byte, off int64) (err error) {
	if f.out == nil {
		if f.out, err = dialBlocking(f.addr, askStore); err != nil {
			return err
		}
	}
	return f.out.send(off, data, true)
}

// Fsync waits until the server has all bytes.
func (f *tcpFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.put(nil, 0)
	if err == nil {
		_, err = io.ReadFull(f.out, make([]byte, 1))
	}
	return fs.ToErrno(err)
}
