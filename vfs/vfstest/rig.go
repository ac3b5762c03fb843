package vfstest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A rig is a file system and its test. Its methods act as the backend's caller
// and fail the test if the operation fails.
type rig struct {
	*testing.T
	b    *Backend
	fs   vfs.FS
	c    *vfs.Cred
	ctx  context.Context
	root vfs.Handle
}

func newRig(t *testing.T, b *Backend) *rig {
	r := &rig{T: t, b: b, c: &b.Caller, ctx: t.Context()}
	r.use(b.New(t))
	return r
}

func (r *rig) use(fs vfs.FS) { r.fs, r.root = fs, fs.Root() }

// restart ends the server and uses the next one, if handles outlive the
// process.
func (r *rig) restart(killed bool) {
	r.Helper()
	if r.b.Restart != nil {
		r.use(r.b.Restart(r.T, r.fs, killed))
	}
}

// as returns a rig for another caller.
func (r *rig) as(c vfs.Cred) *rig {
	other := *r
	other.c = &c
	return &other
}

func ptr[T any](v T) *T { return &v }

func mode(m uint32) vfs.SetAttr { return vfs.SetAttr{Mode: &m} }

func guarded(m uint32) vfs.CreateHow { return vfs.CreateHow{Mode: vfs.Guarded, Attr: mode(m)} }

// file creates a file with contents.
func (r *rig) file(dir vfs.Handle, name, data string) vfs.Handle {
	r.Helper()
	m, err := r.fs.Create(r.ctx, r.c, dir, name, guarded(0o644))
	require.NoError(r, err, name)
	if data != "" {
		r.write(m.Handle, data, 0)
	}
	return m.Handle
}

func (r *rig) dir(dir vfs.Handle, name string) vfs.Handle {
	r.Helper()
	m, err := r.fs.Mkdir(r.ctx, r.c, dir, name, mode(0o755))
	require.NoError(r, err, name)
	return m.Handle
}

func (r *rig) write(h vfs.Handle, data string, off uint64) {
	r.Helper()
	n, _, _, err := r.fs.Write(r.ctx, r.c, h, []byte(data), off, vfs.Unstable)
	require.NoError(r, err)
	require.Equal(r, len(data), n)
}

// read returns all of a file shorter than 64 KiB.
func (r *rig) read(h vfs.Handle) string {
	r.Helper()
	p := make([]byte, 64<<10)
	n, eof, _, err := r.fs.Read(r.ctx, r.c, h, p, 0)
	require.NoError(r, err)
	require.True(r, eof)
	return string(p[:n])
}

func (r *rig) attr(h vfs.Handle) vfs.Attr {
	r.Helper()
	a, err := r.fs.GetAttr(r.ctx, r.c, h)
	require.NoError(r, err)
	return a
}

func (r *rig) lookup(dir vfs.Handle, name string) vfs.Handle {
	r.Helper()
	h, _, _, err := r.fs.Lookup(r.ctx, r.c, dir, name)
	require.NoError(r, err, name)
	return h
}

func (r *rig) setAttr(h vfs.Handle, s vfs.SetAttr) {
	r.Helper()
	_, err := r.fs.SetAttr(r.ctx, r.c, h, s, nil)
	require.NoError(r, err)
}

func (r *rig) rename(from vfs.Handle, name string, to vfs.Handle, toName string) {
	r.Helper()
	_, _, err := r.fs.Rename(r.ctx, r.c, from, name, to, toName)
	require.NoError(r, err)
}

func (r *rig) remove(dir vfs.Handle, name string) {
	r.Helper()
	_, err := r.fs.Remove(r.ctx, r.c, dir, name)
	require.NoError(r, err)
}

func (r *rig) rmdir(dir vfs.Handle, name string) {
	r.Helper()
	_, err := r.fs.Rmdir(r.ctx, r.c, dir, name)
	require.NoError(r, err)
}

func (r *rig) link(h, dir vfs.Handle, name string) {
	r.Helper()
	_, _, err := r.fs.Link(r.ctx, r.c, h, dir, name)
	require.NoError(r, err)
}

// absent asserts that dir has no such name.
func (r *rig) absent(dir vfs.Handle, name string) {
	r.Helper()
	_, _, _, err := r.fs.Lookup(r.ctx, r.c, dir, name)
	assert.ErrorIs(r, err, errNoEnt, name)
}

// stale asserts that a handle is stale.
func (r *rig) stale(h vfs.Handle) {
	r.Helper()
	_, err := r.fs.GetAttr(r.ctx, r.c, h)
	assert.ErrorIs(r, err, errStale)
}

// An entry is a copy of a directory entry.
type entry struct {
	vfs.Entry
	name string
}

// list reads a directory in pieces of piece entries.
func (r *rig) list(dir vfs.Handle, piece int, plus bool) (out []entry) {
	r.Helper()
	var cookie, verifier uint64
	for {
		n := 0
		_, v, eof, err := r.fs.ReadDir(r.ctx, r.c, dir, cookie, verifier, plus, func(e *vfs.Entry) bool {
			if n == piece {
				return false
			}
			n++
			out = append(out, entry{*e, string(e.Name)})
			cookie = e.Cookie
			return true
		})
		require.NoError(r, err)
		verifier = v
		if eof {
			return out
		}
		require.NotZero(r, n, "neither entries nor the end")
	}
}

// names lists a directory without "." and "..".
func (r *rig) names(dir vfs.Handle) (out []string) {
	r.Helper()
	for _, e := range r.list(dir, 100, false) {
		if e.name != "." && e.name != ".." {
			out = append(out, e.name)
		}
	}
	return out
}
