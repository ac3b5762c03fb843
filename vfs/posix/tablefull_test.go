//go:build linux

package posix

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// fullWorld returns a world whose table only the test puts on stable storage.
func fullWorld(t *testing.T) (w *world, log *bytes.Buffer) {
	log = new(bytes.Buffer)
	o := tableKind()
	o.IdleTime = time.Hour
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	return newWorld(t, o), log
}

// full gives the table a file that cannot be written to, until room is called.
func (w *world) full() (room func()) {
	w.Helper()
	tab := w.f.handles.(*tableHandles).table
	file, err := os.Open(filepath.Join(w.s.o.StateDir, tableName))
	require.NoError(w, err)
	swap := func(file *os.File) (old *os.File) {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		old, tab.file = tab.file, file
		return old
	}
	writable, full := swap(file), true
	room = func() {
		if full {
			full = false
			swap(writable)
			require.NoError(w, file.Close())
		}
	}
	w.Cleanup(room)
	return room
}

func (w *world) tryLookup(name string) error {
	_, _, _, err := w.f.Lookup(w.Context(), &w.c, w.f.Root(), name)
	return err
}

func (w *world) create(name string, mode vfs.CreateMode) (vfs.Handle, error) {
	m, err := w.f.Create(w.Context(), &w.c, w.f.Root(), name, vfs.CreateHow{Mode: mode})
	return m.Handle, err
}

func (w *world) rename(from, to string) error {
	_, _, err := w.f.Rename(w.Context(), &w.c, w.f.Root(), from, w.f.Root(), to)
	return err
}

// TestTableFullDisk checks that known objects can be used if the table cannot
// be written. Objects that would be unknown after a restart are refused, before
// anything is changed.
func TestTableFullDisk(t *testing.T) {
	w, log := fullWorld(t)
	for _, name := range []string{"stays", "gone", "new", "never"} {
		w.hostFile(name)
	}
	known, err := w.create("known", vfs.Guarded)
	require.NoError(t, err)
	stays, gone := w.walk("stays"), w.walk("gone")
	room := w.full()
	require.Error(t, w.tryLookup("new"))
	require.Error(t, w.tryLookup("new"), "it is no better known")
	assert.NoError(t, w.tryLookup("known"), "a file on record is found")

	listed := map[string]bool{} // reports whether the entry had a handle
	_, _, eof, err := w.f.ReadDir(t.Context(), &w.c, w.f.Root(), 0, 0, true, func(e *vfs.Entry) bool {
		listed[string(e.Name)] = e.HasHandle
		return true
	})
	assert.NoError(t, err)
	assert.True(t, eof)
	assert.Equal(t, map[string]bool{
		".": true, "..": true, "known": true, "stays": true, "gone": true, "new": false, "never": false,
	}, listed)

	_, err = w.create("made", vfs.Guarded)
	assert.Error(t, err)
	_, err = w.create("made", vfs.Unchecked)
	assert.Error(t, err)
	assert.NoFileExists(t, w.s.path("made"))
	again, err := w.create("known", vfs.Unchecked)
	assert.NoError(t, err)
	assert.Equal(t, known, again)
	_, _, err = w.f.Link(t.Context(), &w.c, known, w.f.Root(), "linked")
	assert.Error(t, err)
	assert.NoFileExists(t, w.s.path("linked"))

	before := w.entry(stays)
	assert.Error(t, w.rename("stays", "moved"))
	assert.FileExists(t, w.s.path("stays"))
	assert.Equal(t, before, w.entry(stays), "it has not moved")
	assert.NoError(t, w.tryLookup("stays"))

	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "gone")
	assert.NoError(t, err, "it was removed")
	assert.NoFileExists(t, w.s.path("gone"))
	assert.ErrorIs(t, w.getattr(gone), unix.ESTALE)

	w.f.syncHandles()
	w.f.syncHandles()
	assert.Equal(t, 1, strings.Count(log.String(), "cannot be written"), log)
	room()
	w.f.syncHandles()
	assert.NoError(t, w.tryLookup("new"))
	assert.NoError(t, w.rename("stays", "moved"))
	_, err = w.create("made", vfs.Guarded)
	assert.NoError(t, err)
	w.reopen()
	assert.NoError(t, w.getattr(known))
	assert.NoError(t, w.getattr(stays))
	w.hostFile("last")
	w.full()
	require.Error(t, w.tryLookup("last"))
	w.f.syncHandles()
	assert.Equal(t, 2, strings.Count(log.String(), "cannot be written"), log)
}

// TestTableFullAfterChange checks that a change that meets the full disk was
// made and reports no failure. Its table entry is on file once there is room,
// at the latest when the daemon ends.
func TestTableFullAfterChange(t *testing.T) {
	for name, op := range map[string]func(w *world, f vfs.Handle, name string) (vfs.Handle, error){
		"CREATE": func(w *world, _ vfs.Handle, name string) (vfs.Handle, error) {
			return w.create(name, vfs.Guarded)
		},
		"LINK": func(w *world, f vfs.Handle, name string) (vfs.Handle, error) {
			_, _, err := w.f.Link(w.Context(), &w.c, f, w.f.Root(), name)
			return f, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := fullWorld(t)
			f, err := w.create("f", vfs.Guarded)
			require.NoError(t, err)
			room := w.full()
			h, err := op(w, f, "first")
			require.NoError(t, err)
			assert.FileExists(t, w.s.path("first"))
			_, err = op(w, f, "second")
			assert.Error(t, err)
			assert.NoFileExists(t, w.s.path("second"))
			room()
			require.NoError(t, w.f.Close())
			w.f = w.s.open(t)
			assert.Equal(t, "first", w.entry(h).places[0].name)
		})
	}
}

// TestTableFullLog checks that a full disk does not fill the log with a message
// for each change.
func TestTableFullLog(t *testing.T) { synctest.Test(t, testTableFullLog) }

func testTableFullLog(t *testing.T) {
	const many = 50
	w, log := fullWorld(t)
	for i := range many {
		w.hostFile(fmt.Sprint(i))
		w.walk(fmt.Sprint(i))
	}
	w.full()
	tab := w.f.handles.(*tableHandles).table
	tab.mu.Lock()
	var err error
	for ino := uint64(1 << 60); err == nil; ino++ {
		err = tab.put(numbered(ino))
	}
	tab.mu.Unlock()
	require.Error(t, err)
	for i := range many {
		_, err := w.f.Remove(t.Context(), &w.c, w.f.Root(), fmt.Sprint(i))
		require.NoError(t, err)
	}
	n := strings.Count(log.String(), "does not know of a change")
	assert.Positive(t, n)
	assert.Less(t, n, many)
}

// TestTableTick checks that ticks put the table on stable storage.
func TestTableTick(t *testing.T) { synctest.Test(t, testTableTick) }

func testTableTick(t *testing.T) {
	const idle = time.Minute
	w := newWorld(t, Options{TableHandles: true, IdleTime: idle})
	tab := w.f.handles.(*tableHandles).table
	var syncs atomic.Int32
	tab.mu.Lock()
	tab.fsync = func(*os.File) error {
		syncs.Add(1)
		return nil
	}
	tab.mu.Unlock()
	w.hostFile("f")
	w.walk("f")
	synctest.Wait()
	assert.Zero(t, syncs.Load())
	time.Sleep(idle)
	synctest.Wait()
	assert.EqualValues(t, 1, syncs.Load())
}
