package billy

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A pathHandles numbers paths, and remembers the numbers for as long as the
// test needs.
type pathHandles struct {
	paths  map[string][]string
	number map[string]int
	next   int
	long   bool
}

func newPathHandles() *pathHandles {
	return &pathHandles{paths: make(map[string][]string), number: make(map[string]int)}
}

func (p *pathHandles) Handle(path []string) ([]byte, error) {
	key := strings.Join(path, "/")
	if p.number[key] == 0 {
		p.next++
		p.number[key] = p.next
	}
	h := fmt.Sprint("handle", p.number[key])
	p.paths[h] = append([]string{}, path...)
	if p.long {
		h += strings.Repeat(".", vfs.MaxHandle)
	}
	return []byte(h), nil
}

func (p *pathHandles) Path(h []byte) ([]string, error) {
	if path, ok := p.paths[string(h)]; ok {
		return path, nil
	}
	return nil, errors.New("unknown")
}

func (p *pathHandles) Forget(h []byte) {
	delete(p.number, strings.Join(p.paths[string(h)], "/"))
	delete(p.paths, string(h))
}

// TestHandles checks that handles from Options.Handles outlive the FS, and
// follow renames during its life.
func TestHandles(t *testing.T) {
	host, handles := newHost(t), newPathHandles()
	u := newUser(t, host, Options{Handles: handles})
	dir := u.mkdir(u.Root(), "dir")
	f := u.create(dir, "f")
	assert.Equal(t, "handle3", string(f.AppendTo(nil)))
	u = newUser(t, host, Options{Handles: handles})
	data, err := u.read(f)
	require.NoError(t, err)
	assert.Equal(t, "f", data)
	h, err := u.lookup(dir, "f")
	require.NoError(t, err)
	assert.Equal(t, f, h)

	// A new object with an old name is a different object.
	u.rename("dir", "moved")
	other := u.create(u.mkdir(u.Root(), "dir"), "f")
	assert.NotEqual(t, f, other)
	_, _, w, err := u.Write(t.Context(), &u.c, other, []byte("g"), 0, vfs.FileSync)
	require.NoError(t, err)
	assert.True(t, w.After.OK)
	data, err = u.read(f)
	require.NoError(t, err)
	assert.Equal(t, "f", data, "the handle moved too")

	u = newUser(t, host, Options{Handles: handles})
	_, err = u.read(f)
	assert.ErrorIs(t, err, syscall.ESTALE, "clients were told to forget it")
	data, err = u.read(other)
	require.NoError(t, err)
	assert.Equal(t, "g", data)
	_, err = u.Remove(t.Context(), &u.c, dirOf(u, "dir"), "f")
	require.NoError(t, err)
	_, err = u.read(other)
	assert.ErrorIs(t, err, syscall.ESTALE)

	unknown, _ := vfs.NewHandle([]byte("nobody's"))
	_, err = u.read(unknown)
	assert.ErrorIs(t, err, syscall.ESTALE)
}

func dirOf(u testCaller, name string) vfs.Handle {
	h, err := u.lookup(u.Root(), name)
	require.NoError(u, err)
	return h
}

// TestHandlesFixed checks that if handles are based on paths alone, an object
// loses its handle to the next object with its name.
func TestHandlesFixed(t *testing.T) {
	u := newUser(t, newHost(t), Options{Handles: fixedHandles{}})
	f := u.create(u.Root(), "f")
	u.rename("f", "g")
	data, err := u.read(f)
	require.NoError(t, err)
	assert.Equal(t, "f", data)
	assert.Equal(t, f, u.create(u.Root(), "f"))
	g, err := u.lookup(u.Root(), "g")
	require.NoError(t, err)
	assert.NotEqual(t, f, g)
	assert.Len(t, u.table.byHandle, 3)
}

type fixedHandles struct{}

func (fixedHandles) Handle(path []string) ([]byte, error) {
	return []byte("/" + strings.Join(path, "/")), nil
}

func (fixedHandles) Path(h []byte) ([]string, error) { return nil, errors.New("unknown") }

func (fixedHandles) Forget([]byte) {}

// TestHandlesLong checks that handles that cannot be sent are rejected, the root's at once.
func TestHandlesLong(t *testing.T) {
	long := newPathHandles()
	long.long = true
	_, err := New(newHost(t), Options{Handles: long})
	assert.ErrorContains(t, err, "a file handle of 51 bytes, must be 1 to 44")

	u := newUser(t, newHost(t), Options{Handles: fixedHandles{}})
	_, err = u.Create(t.Context(), &u.c, u.Root(), strings.Repeat("n", 44), vfs.CreateHow{})
	assert.ErrorContains(t, err, "45 bytes")
	_, err = u.Create(t.Context(), &u.c, u.Root(), strings.Repeat("n", 43), vfs.CreateHow{})
	assert.NoError(t, err)
}
