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

// memFS mounts a FUSE file system with the files big and over. Reads copy from
// memory and writes copy to memory, at most a MiB at once: the limit of a
// network file system without a network. Its argument is the mount point.
func memFS(args []string) error {
	return serveFS(args[0], block, func() fs.InodeEmbedder { return &memFile{memory: make([]byte, block)} })
}

// serveFS mounts a FUSE file system with files that file makes, and serves it
// until told to end. The kernel reads ahead bytes in advance, if serveFS may
// set that.
func serveFS(point string, ahead int, file func() fs.InodeEmbedder) error {
	sec := time.Second
	return serveRoot(point, ahead, &fsRoot{file: file}, &fs.Options{AttrTimeout: &sec, EntryTimeout: &sec})
}

// serveRoot is serveFS with a directory and options.
func serveRoot(point string, ahead int, root fs.InodeEmbedder, opts *fs.Options) error {
	opts.FsName, opts.Name = "memfs", "bench"
	opts.DisableSplice, opts.DisableXAttrs = true, true
	opts.MaxWrite, opts.MaxReadAhead = block, ahead
	opts.DirectMount = os.Geteuid() == 0
	server, err := fs.Mount(point, root, opts)
	if err != nil {
		return err
	}
	if ahead > block {
		_ = readFarther(point, ahead) // only root may
	}
	fmt.Printf("ready at=%s\n", point)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	go func() {
		<-stop
		_ = server.Unmount()
	}()
	server.Wait()
	return nil
}

// fsRoot is the directory.
type fsRoot struct {
	fs.Inode
	file func() fs.InodeEmbedder
}

var _ fs.NodeOnAdder = (*fsRoot)(nil)

// OnAdd makes the files.
func (r *fsRoot) OnAdd(ctx context.Context) {
	for _, name := range []string{"big", "over"} {
		r.AddChild(name, r.NewPersistentInode(ctx, r.file(), fs.StableAttr{Mode: fuse.S_IFREG}), true)
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

// Getattr reports the size.
func (f *memFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o644, fileSize
	return 0
}

// Open does nothing.
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

// Fsync does nothing.
func (f *memFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }
