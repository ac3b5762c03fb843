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
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// fullTestFS returns a testFS whose table only the test puts on stable storage.
func fullTestFS(t *testing.T) (w *testFS, log *bytes.Buffer) {
	log = new(bytes.Buffer)
	o := tableKind()
	o.IdleTime = time.Hour
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	return newTestFS(t, o), log
}

// fillTable gives the table a file that cannot be written to, until unblock is called.
func (w *testFS) fillTable() (unblock func()) {
	w.Helper()
	path := filepath.Join(w.s.o.StateDir, handletable.FileName)
	place := fdOf(w, path)
	writable, err := dupFD(place)
	require.NoError(w, err)
	file, err := os.Open(path)
	require.NoError(w, err)
	require.NoError(w, dupOver(int(file.Fd()), place))
	require.NoError(w, file.Close())
	full := true
	unblock = func() {
		if full {
			full = false
			require.NoError(w, dupOver(writable, place))
			closeFD(writable)
		}
	}
	w.Cleanup(unblock)
	return unblock
}

func (w *testFS) tryLookup(name string) error {
	_, _, _, err := w.f.Lookup(w.Context(), &w.c, w.f.Root(), name)
	return err
}

func (w *testFS) create(name string, mode vfs.CreateMode) (vfs.Handle, error) {
	m, err := w.f.Create(w.Context(), &w.c, w.f.Root(), name, vfs.CreateHow{Mode: mode})
	return m.Handle, err
}

func (w *testFS) rename(from, to string) error {
	_, _, err := w.f.Rename(w.Context(), &w.c, w.f.Root(), from, w.f.Root(), to)
	return err
}

// TestTableFullDisk checks that known objects can be used if the table cannot be written. Objects
// that would be unknown after a restart are rejected, before anything is changed.
func TestTableFullDisk(t *testing.T) {
	w, log := fullTestFS(t)
	for _, name := range []string{"stays", "gone", "new", "never"} {
		w.hostFile(name)
	}
	known, err := w.create("known", vfs.Guarded)
	require.NoError(t, err)
	stays, gone := w.walk("stays"), w.walk("gone")
	unblock := w.fillTable()
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
	unblock()
	w.f.syncHandles()
	assert.NoError(t, w.tryLookup("new"))
	assert.NoError(t, w.rename("stays", "moved"))
	_, err = w.create("made", vfs.Guarded)
	assert.NoError(t, err)
	w.reopen()
	assert.NoError(t, w.getattr(known))
	assert.NoError(t, w.getattr(stays))
	w.hostFile("last")
	w.fillTable()
	require.Error(t, w.tryLookup("last"))
	w.f.syncHandles()
	assert.Equal(t, 2, strings.Count(log.String(), "cannot be written"), log)
}

// TestTableFullAfterChange checks that a change that meets the full disk was made and reports no
// failure. Its table entry is on file once there is space, at the latest when the daemon exits.
func TestTableFullAfterChange(t *testing.T) {
	for name, op := range map[string]func(w *testFS, f vfs.Handle, name string) (vfs.Handle, error){
		"CREATE": func(w *testFS, _ vfs.Handle, name string) (vfs.Handle, error) {
			return w.create(name, vfs.Guarded)
		},
		"LINK": func(w *testFS, f vfs.Handle, name string) (vfs.Handle, error) {
			_, _, err := w.f.Link(w.Context(), &w.c, f, w.f.Root(), name)
			return f, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := fullTestFS(t)
			f, err := w.create("f", vfs.Guarded)
			require.NoError(t, err)
			unblock := w.fillTable()
			h, err := op(w, f, "first")
			require.NoError(t, err)
			assert.FileExists(t, w.s.path("first"))
			_, err = op(w, f, "second")
			assert.Error(t, err)
			assert.NoFileExists(t, w.s.path("second"))
			unblock()
			require.NoError(t, w.f.Close())
			w.f = w.s.open(t)
			assert.Equal(t, "first", w.entry(h).Places[0].Name)
		})
	}
}

// TestTableFullLog checks that a full disk does not fill the log with a message
// for each change.
func TestTableFullLog(t *testing.T) { synctest.Test(t, testTableFullLog) }

func testTableFullLog(t *testing.T) {
	const many = 50
	w, log := fullTestFS(t)
	for i := range many {
		w.hostFile(fmt.Sprint(i))
		w.walk(fmt.Sprint(i))
	}
	w.fillTable()
	tab := w.f.handles.(*tableHandles).table
	tab.Lock()
	var err error
	for ino := uint64(1 << 60); err == nil; ino++ {
		err = tab.Put(&handletable.Entry{ID: handletable.ID{Ino: ino}})
	}
	tab.Unlock()
	require.Error(t, err)
	for i := range many {
		_, err := w.f.Remove(t.Context(), &w.c, w.f.Root(), fmt.Sprint(i))
		require.NoError(t, err)
	}
	n := strings.Count(log.String(), "cannot record a change")
	assert.Positive(t, n)
	assert.Less(t, n, many)
}

// TestTableTick checks that ticks put the table on stable storage.
func TestTableTick(t *testing.T) { synctest.Test(t, testTableTick) }

func testTableTick(t *testing.T) {
	const idle = time.Minute
	w := newTestFS(t, Options{TableHandles: true, IdleTime: idle})
	tab := w.f.handles.(*tableHandles).table
	var syncs atomic.Int32
	tab.SetFsync(func(*os.File) error {
		syncs.Add(1)
		return nil
	})
	w.hostFile("f")
	w.walk("f")
	synctest.Wait()
	assert.Zero(t, syncs.Load())
	time.Sleep(idle)
	synctest.Wait()
	assert.EqualValues(t, 1, syncs.Load())
}
