package billy

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// errNoSync is the error of refusing a file system, and of writing to a file
// that unlike the root has no Sync.
var errNoSync = errors.New("vfs/billy: files without a Sync method could lose data that clients know as stable: " +
	"give go-billy's osfs the option osfs.WithBoundOS, or set Options.Volatile if data needs no more than a close")

// A syncer is a file that can be put on stable storage, like *os.File.
type syncer interface{ Sync() error }

// syncerOf returns the syncer of a file, or nil. A wrapper that embeds a
// gobilly.File hides the Sync of the wrapped file. helper/chroot's is such a
// wrapper, around all files of go-billy's osfs.
func syncerOf(file gobilly.File) syncer {
	for file != nil {
		if s, ok := file.(syncer); ok {
			return s
		}
		v := reflect.Indirect(reflect.ValueOf(file))
		if v.Kind() != reflect.Struct {
			return nil
		}
		t, ok := v.Type().FieldByName("File")
		if !ok || !t.Anonymous || len(t.Index) > 1 {
			return nil
		}
		file, _ = v.FieldByIndex(t.Index).Interface().(gobilly.File)
	}
	return nil
}

// checkSync returns an error if writes to the file system cannot be promised to
// be stable.
func (f *FS) checkSync() error {
	if f.readOnly || f.o.Volatile {
		return nil
	}
	root, err := f.fs.Open(f.fs.Join())
	if err != nil {
		return fmt.Errorf("%w (cannot open the root to check: %w)", errNoSync, err)
	}
	defer root.Close()
	if syncerOf(root) == nil {
		return errNoSync
	}
	return nil
}

// makeStable syncs written data as required by how.
func (f *FS) makeStable(w gobilly.File, how vfs.Stable) (vfs.Stable, error) {
	if how == vfs.Unstable && syncerOf(w) != nil {
		return how, nil
	}
	return vfs.FileSync, f.syncFile(w)
}

// syncFile puts a file on stable storage. After a failure clients must write again
// the data that they still have.
func (f *FS) syncFile(file gobilly.File) error {
	s := syncerOf(file)
	switch {
	case s == nil && f.o.Volatile:
		return nil
	case s == nil:
		return errNoSync
	}
	err := s.Sync()
	if err != nil {
		f.verifier.Store(randomUint64())
	}
	return err
}

// markChanged records that an object has just changed. The second of two changes
// always gets a later time, regardless of the clock's step, because clients
// compare the times.
func (t *nodeTable) markChanged(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := timeOf(time.Now())
	if laterOf(n.touched, now) == n.touched {
		now = n.touched
		now.Nsec++
		if now.Nsec == 1e9 {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	n.touched = now
}

func (t *nodeTable) lastChange(n *node) vfs.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.touched
}
