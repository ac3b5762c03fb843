package main

import (
	"context"
	"math"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// runPageFS mounts a FUSE file system with one-page files in memory. The kernel
// caches names, attributes and pages, so that it sends only OPEN and RELEASE when a
// file is opened again: the limit for a mount that caches everything. Its arguments
// are the mount point and the number of files.
func runPageFS(args []string) error {
	files, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	long := time.Duration(math.MaxInt64)
	opts := &fs.Options{AttrTimeout: &long, EntryTimeout: &long}
	return serveRoot(args[0], pageSize, &pageRoot{files: files}, opts)
}

// pageRoot is the directory with the files.
type pageRoot struct {
	fs.Inode
	files int
}

var _ fs.NodeOnAdder = (*pageRoot)(nil)

// OnAdd makes the files.
func (r *pageRoot) OnAdd(ctx context.Context) {
	for i := range r.files {
		r.AddChild(fileName(i), r.NewPersistentInode(ctx, new(pageFile), fs.StableAttr{Mode: fuse.S_IFREG}), true)
	}
}

// A pageFile is a file with one page of zeros.
type pageFile struct{ fs.Inode }

var (
	_ fs.NodeOpener    = (*pageFile)(nil)
	_ fs.NodeReader    = (*pageFile)(nil)
	_ fs.NodeGetattrer = (*pageFile)(nil)
)

// Getattr reports the size.
func (f *pageFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = fuse.S_IFREG|0o644, pageSize
	return 0
}

// Open lets the kernel keep the page, and close without a FLUSH.
func (f *pageFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH, 0
}

// Read returns zeros.
func (f *pageFile) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	into = into[:min(int64(len(into)), max(pageSize-off, 0))]
	clear(into)
	return fuse.ReadResultData(into), 0
}
