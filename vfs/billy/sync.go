package billy

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// errNoSync is why a file system is not served, and the error of writing to a file
// that turns out not to be as the root is.
var errNoSync = errors.New("vfs/billy: its files have no Sync, so what clients write could be lost after it was answered as stable: " +
	"go-billy's osfs wants osfs.WithBoundOS, and a file system whose files are as stable as they will ever be once they are closed wants Options.Volatile")

// A syncer is a file that can be put on stable storage, as *os.File.
type syncer interface{ Sync() error }

// syncerOf returns what syncs a file, or nil. A wrapper that embeds a gobilly.File, as
// that of helper/chroot does, which is around all files of go-billy's osfs, hides the
// Sync of what it wraps.
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

// checkSync tells why what is written to the file system cannot be promised to last.
func (f *FS) checkSync() error {
	if f.readOnly || f.o.Volatile {
		return nil
	}
	root, err := f.fs.Open(f.fs.Join())
	if err != nil {
		return fmt.Errorf("%w (the root cannot be opened to see: %w)", errNoSync, err)
	}
	defer root.Close()
	if syncerOf(root) == nil {
		return errNoSync
	}
	return nil
}

// stable makes what was written as stable as asked.
func (f *FS) stable(w gobilly.File, how vfs.Stable) (vfs.Stable, error) {
	if how == vfs.Unstable && syncerOf(w) != nil {
		return how, nil
	}
	return vfs.FileSync, f.sync(w)
}

// sync puts a file on stable storage. After a failure clients must write again what
// they still have.
func (f *FS) sync(file gobilly.File) error {
	s := syncerOf(file)
	switch {
	case s == nil && f.o.Volatile:
		return nil
	case s == nil:
		return errNoSync
	}
	err := s.Sync()
	if err != nil {
		f.verifier.Store(random())
	}
	return err
}

// touch takes note that an object was changed just now. Of two changes the
// second has the later time, whatever the clock's step is: clients go by it.
func (t *table) touch(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := timeOf(time.Now())
	if later(n.touched, now) == n.touched {
		now = n.touched
		now.Nsec++
		if now.Nsec == 1e9 {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	n.touched = now
}

func (t *table) touched(n *node) vfs.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.touched
}
