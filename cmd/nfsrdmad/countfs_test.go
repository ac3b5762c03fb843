package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A countingFS counts how often each change is executed. A test must give each
// change a name of its own: the name that is made, removed or renamed, the time
// that a SETATTR sets, or the first 8 bytes of a WRITE.
type countingFS struct {
	vfs.FS

	mu       sync.Mutex
	executed map[string]int

	beforeChange func(change string) // called before a change is made, if not nil
}

// countChange counts a change.
func (f *countingFS) countChange(change string) {
	if f.beforeChange != nil {
		f.beforeChange(change)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.executed[change]++
}

// delayRandomly delays some changes, so that a retry finds the call running.
func delayRandomly(string) {
	if rand.N(40) == 0 {
		time.Sleep(rand.N(2 * orphanTime))
	}
}

func (f *countingFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	f.countChange(fmt.Sprint("SETATTR ", s.Mtime.Sec))
	return f.FS.SetAttr(ctx, c, h, s, guard)
}

func (f *countingFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.countChange(fmt.Sprint("WRITE ", binary.BigEndian.Uint64(p)))
	return f.FS.Write(ctx, c, h, p, off, how)
}

func (f *countingFS) Create(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	f.countChange("CREATE " + name)
	return f.FS.Create(ctx, c, dir, name, how)
}

func (f *countingFS) Mkdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	f.countChange("MKDIR " + name)
	return f.FS.Mkdir(ctx, c, dir, name, s)
}

func (f *countingFS) Symlink(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	f.countChange("SYMLINK " + name)
	return f.FS.Symlink(ctx, c, dir, name, target, s)
}

func (f *countingFS) Mknod(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	f.countChange("MKNOD " + name)
	return f.FS.Mknod(ctx, c, dir, name, t, d, s)
}

func (f *countingFS) Remove(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	f.countChange("REMOVE " + name)
	return f.FS.Remove(ctx, c, dir, name)
}

func (f *countingFS) Rmdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	f.countChange("RMDIR " + name)
	return f.FS.Rmdir(ctx, c, dir, name)
}

func (f *countingFS) Rename(ctx context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (vfs.WCC, vfs.WCC, error) {
	f.countChange("RENAME " + fromName)
	return f.FS.Rename(ctx, c, from, fromName, to, toName)
}

func (f *countingFS) Link(ctx context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	f.countChange("LINK " + name)
	return f.FS.Link(ctx, c, h, dir, name)
}
