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

// runMemFS mounts a FUSE file system with the files big and over. Reads copy from
// memory and writes copy to memory, at most 1 MiB at once: the limit for a network
// file system without a network. Its argument is the mount point.
func runMemFS(args []string) error {
	return serveFS(args[0], blockSize, func() fs.InodeEmbedder { return &memoryFile{content: make([]byte, blockSize)} })
}

// serveFS mounts a FUSE file system with files that file creates, and serves it
// until it gets a signal. The kernel reads ahead bytes in advance, if serveFS may
// set that.
func serveFS(point string, ahead int, file func() fs.InodeEmbedder) error {
	sec := time.Second
	return serveRoot(point, ahead, &fsRoot{file: file}, &fs.Options{AttrTimeout: &sec, EntryTimeout: &sec})
}

// serveRoot mounts a FUSE file system with a root directory and options, and serves
// it until it gets a signal.
func serveRoot(point string, ahead int, root fs.InodeEmbedder, opts *fs.Options) error {
	opts.FsName, opts.Name = "memfs", "bench"
	opts.DisableSplice, opts.DisableXAttrs = true, true
	opts.MaxWrite, opts.MaxReadAhead = blockSize, ahead
	opts.DirectMount = os.Geteuid() == 0
	server, err := fs.Mount(point, root, opts)
	if err != nil {
		return err
	}
	if ahead > blockSize {
		_ = raiseReadAhead(point, ahead) // only root may
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

// fsRoot is the root directory.
type fsRoot struct {
	fs.Inode
	file func() fs.InodeEmbedder
}

var _ fs.NodeOnAdder = (*fsRoot)(nil)

// OnAdd creates the files.
func (r *fsRoot) OnAdd(ctx context.Context) {
	for _, name := range []string{"big", "over"} {
		r.AddChild(name, r.NewPersistentInode(ctx, r.file(), fs.StableAttr{Mode: fuse.S_IFREG}), true)
	}
}

// A memoryFile is a file that repeats 1 MiB of content.
type memoryFile struct {
	fs.Inode
	content []byte
}

var (
	_ fs.NodeOpener    = (*memoryFile)(nil)
	_ fs.NodeReader    = (*memoryFile)(nil)
	_ fs.NodeWriter    = (*memoryFile)(nil)
	_ fs.NodeGetattrer = (*memoryFile)(nil)
	_ fs.NodeFsyncer   = (*memoryFile)(nil)
)

// Getattr reports the size.
func (f *memoryFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o644, fileSize
	return 0
}

// Open does nothing.
func (f *memoryFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

// Read copies from memory.
func (f *memoryFile) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n := copy(into, f.content[:min(int64(len(f.content)), max(fileSize-off, 0))])
	return fuse.ReadResultData(into[:n]), 0
}

// Write copies to memory.
func (f *memoryFile) Write(_ context.Context, _ fs.FileHandle, data []byte, _ int64) (uint32, syscall.Errno) {
	return uint32(copy(f.content, data)), 0
}

// Fsync does nothing.
func (f *memoryFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }
