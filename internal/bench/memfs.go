package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// memFS mounts a FUSE file system with the files big and over, which copies what
// is read from memory and what is written to memory, a MiB at most at once: what
// a network file system could be if there were no network. Its argument is where.
func memFS(args []string) error {
	sec := time.Second
	opts := &fs.Options{AttrTimeout: &sec, EntryTimeout: &sec}
	opts.FsName, opts.Name = "memfs", "bench"
	opts.DisableSplice, opts.DisableXAttrs = true, true
	opts.MaxWrite, opts.MaxReadAhead = block, block
	opts.DirectMount = os.Geteuid() == 0
	root := &memRoot{}
	server, err := fs.Mount(args[0], root, opts)
	if err != nil {
		return err
	}
	fmt.Printf("ready at=%s\n", args[0])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	go func() {
		<-stop
		_ = server.Unmount()
	}()
	server.Wait()
	return nil
}

// memRoot is the directory of memfs.
type memRoot struct{ fs.Inode }

var _ fs.NodeOnAdder = (*memRoot)(nil)

// OnAdd makes the files.
func (r *memRoot) OnAdd(ctx context.Context) {
	for _, name := range []string{"big", "over"} {
		f := &memFile{memory: make([]byte, block)}
		r.AddChild(name, r.NewPersistentInode(ctx, f, fs.StableAttr{Mode: fuse.S_IFREG}), true)
	}
}

// A memFile is a file that repeats a MiB.
type memFile struct {
	fs.Inode
	memory []byte
}

var (
	_ fs.NodeOpener    = (*memFile)(nil)
	_ fs.NodeReader    = (*memFile)(nil)
	_ fs.NodeWriter    = (*memFile)(nil)
	_ fs.NodeGetattrer = (*memFile)(nil)
	_ fs.NodeFsyncer   = (*memFile)(nil)
)

// Getattr tells the size.
func (f *memFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o644, fileSize
	return 0
}

// Open has nothing to do.
func (f *memFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

// Read copies from memory.
func (f *memFile) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n := copy(into, f.memory[:min(int64(len(f.memory)), max(fileSize-off, 0))])
	return fuse.ReadResultData(into[:n]), 0
}

// Write copies to memory.
func (f *memFile) Write(_ context.Context, _ fs.FileHandle, data []byte, _ int64) (uint32, syscall.Errno) {
	return uint32(copy(f.memory, data)), 0
}

// Fsync has nothing to do.
func (f *memFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }
