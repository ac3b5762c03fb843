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

// A countFS counts how often each change is executed. A test must give each
// change a name of its own: the name that is made, removed or renamed, the time
// that a SETATTR sets, or the first 8 bytes of a WRITE.
type countFS struct {
	vfs.FS

	mu   sync.Mutex
	done map[string]int

	gate func(change string) // called before a change is made, if not nil
}

// count counts a change.
func (f *countFS) count(change string) {
	if f.gate != nil {
		f.gate(change)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done[change]++
}

// dawdle delays some changes, so that a retry finds the call running.
func dawdle(string) {
	if rand.N(40) == 0 {
		time.Sleep(rand.N(2 * orphaned))
	}
}

func (f *countFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, s vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	f.count(fmt.Sprint("SETATTR ", s.Mtime.Sec))
	return f.FS.SetAttr(ctx, c, h, s, guard)
}

func (f *countFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.count(fmt.Sprint("WRITE ", binary.BigEndian.Uint64(p)))
	return f.FS.Write(ctx, c, h, p, off, how)
}

func (f *countFS) Create(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow) (vfs.Made, error) {
	f.count("CREATE " + name)
	return f.FS.Create(ctx, c, dir, name, how)
}

func (f *countFS) Mkdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	f.count("MKDIR " + name)
	return f.FS.Mkdir(ctx, c, dir, name, s)
}

func (f *countFS) Symlink(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name, target string, s vfs.SetAttr) (vfs.Made, error) {
	f.count("SYMLINK " + name)
	return f.FS.Symlink(ctx, c, dir, name, target, s)
}

func (f *countFS) Mknod(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, t vfs.Type, d vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	f.count("MKNOD " + name)
	return f.FS.Mknod(ctx, c, dir, name, t, d, s)
}

func (f *countFS) Remove(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	f.count("REMOVE " + name)
	return f.FS.Remove(ctx, c, dir, name)
}

func (f *countFS) Rmdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string) (vfs.WCC, error) {
	f.count("RMDIR " + name)
	return f.FS.Rmdir(ctx, c, dir, name)
}

func (f *countFS) Rename(ctx context.Context, c *vfs.Cred, from vfs.Handle, fromName string, to vfs.Handle, toName string) (vfs.WCC, vfs.WCC, error) {
	f.count("RENAME " + fromName)
	return f.FS.Rename(ctx, c, from, fromName, to, toName)
}

func (f *countFS) Link(ctx context.Context, c *vfs.Cred, h, dir vfs.Handle, name string) (vfs.MaybeAttr, vfs.WCC, error) {
	f.count("LINK " + name)
	return f.FS.Link(ctx, c, h, dir, name)
}
