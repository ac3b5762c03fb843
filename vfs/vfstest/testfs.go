package vfstest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A testFS is a file system and its test. Its methods act as the backend's caller
// and fail the test if the operation fails.
type testFS struct {
	*testing.T
	b    *Backend
	fs   vfs.FS
	c    *vfs.Cred
	ctx  context.Context
	root vfs.Handle
}

func newTestFS(t *testing.T, b *Backend) *testFS {
	r := &testFS{T: t, b: b, c: &b.Caller, ctx: t.Context()}
	r.useFS(b.New(t))
	return r
}

func (r *testFS) useFS(fs vfs.FS) { r.fs, r.root = fs, fs.Root() }

// restartFS restarts the server, if handles outlive the process.
func (r *testFS) restartFS(killed bool) {
	r.Helper()
	if r.b.Restart != nil {
		r.useFS(r.b.Restart(r.T, r.fs, killed))
	}
}

// asCaller returns a testFS for another caller.
func (r *testFS) asCaller(c vfs.Cred) *testFS {
	other := *r
	other.c = &c
	return &other
}

func ptrTo[T any](v T) *T { return &v }

func modeAttr(m uint32) vfs.SetAttr { return vfs.SetAttr{Mode: &m} }

func guardedCreate(m uint32) vfs.CreateHow {
	return vfs.CreateHow{Mode: vfs.Guarded, Attr: modeAttr(m)}
}

// createFile creates a file with contents.
func (r *testFS) createFile(dir vfs.Handle, name, data string) vfs.Handle {
	r.Helper()
	m, err := r.fs.Create(r.ctx, r.c, dir, name, guardedCreate(0o644))
	require.NoError(r, err, name)
	if data != "" {
		r.writeFile(m.Handle, data, 0)
	}
	return m.Handle
}

func (r *testFS) createDir(dir vfs.Handle, name string) vfs.Handle {
	r.Helper()
	m, err := r.fs.Mkdir(r.ctx, r.c, dir, name, modeAttr(0o755))
	require.NoError(r, err, name)
	return m.Handle
}

func (r *testFS) writeFile(h vfs.Handle, data string, off uint64) {
	r.Helper()
	n, _, _, err := r.fs.Write(r.ctx, r.c, h, []byte(data), off, vfs.Unstable)
	require.NoError(r, err)
	require.Equal(r, len(data), n)
}

// readFile returns all of a file shorter than 64 KiB.
func (r *testFS) readFile(h vfs.Handle) string {
	r.Helper()
	p := make([]byte, 64<<10)
	n, eof, _, err := r.fs.Read(r.ctx, r.c, h, p, 0)
	require.NoError(r, err)
	require.True(r, eof)
	return string(p[:n])
}

func (r *testFS) getAttr(h vfs.Handle) vfs.Attr {
	r.Helper()
	a, err := r.fs.GetAttr(r.ctx, r.c, h)
	require.NoError(r, err)
	return a
}

func (r *testFS) lookupName(dir vfs.Handle, name string) vfs.Handle {
	r.Helper()
	h, _, _, err := r.fs.Lookup(r.ctx, r.c, dir, name)
	require.NoError(r, err, name)
	return h
}

func (r *testFS) setAttr(h vfs.Handle, s vfs.SetAttr) {
	r.Helper()
	_, err := r.fs.SetAttr(r.ctx, r.c, h, s, nil)
	require.NoError(r, err)
}

func (r *testFS) renameName(from vfs.Handle, name string, to vfs.Handle, toName string) {
	r.Helper()
	_, _, err := r.fs.Rename(r.ctx, r.c, from, name, to, toName)
	require.NoError(r, err)
}

func (r *testFS) removeFile(dir vfs.Handle, name string) {
	r.Helper()
	_, err := r.fs.Remove(r.ctx, r.c, dir, name)
	require.NoError(r, err)
}

func (r *testFS) removeDir(dir vfs.Handle, name string) {
	r.Helper()
	_, err := r.fs.Rmdir(r.ctx, r.c, dir, name)
	require.NoError(r, err)
}

func (r *testFS) linkName(h, dir vfs.Handle, name string) {
	r.Helper()
	_, _, err := r.fs.Link(r.ctx, r.c, h, dir, name)
	require.NoError(r, err)
}

// assertAbsent asserts that dir has no such name.
func (r *testFS) assertAbsent(dir vfs.Handle, name string) {
	r.Helper()
	_, _, _, err := r.fs.Lookup(r.ctx, r.c, dir, name)
	assert.ErrorIs(r, err, errNoEnt, name)
}

// assertStale asserts that a handle is stale.
func (r *testFS) assertStale(h vfs.Handle) {
	r.Helper()
	_, err := r.fs.GetAttr(r.ctx, r.c, h)
	assert.ErrorIs(r, err, errStale)
}

// An entry is a copy of a directory entry.
type entry struct {
	vfs.Entry
	name string
}

// listDir reads a directory in pieces of piece entries.
func (r *testFS) listDir(dir vfs.Handle, piece int, plus bool) (out []entry) {
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

// listNames lists a directory without "." and "..".
func (r *testFS) listNames(dir vfs.Handle) (out []string) {
	r.Helper()
	for _, e := range r.listDir(dir, 100, false) {
		if e.name != "." && e.name != ".." {
			out = append(out, e.name)
		}
	}
	return out
}
