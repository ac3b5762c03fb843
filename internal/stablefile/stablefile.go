// Package stablefile writes a small file whole: after a crash of the process or
// the machine the file has either its old content or its new one. The package
// must not know the content.
package stablefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// nextSuffix follows the name of a file that is being written.
const nextSuffix = ".new"

// Replace writes a file of mode 0600 with content b, in place of an earlier file
// of that name. The caller keeps others from writing the same file. sync puts a
// file or directory on stable storage; (*os.File).Sync does so, and tests have
// others. If Replace returns no error, the file is on stable storage. After an
// error the file is the old one, except that a sync of the directory that fails
// leaves the new one, which a power failure may take back.
func Replace(name string, b []byte, sync func(*os.File) error) error {
	return replace(name, name+nextSuffix, b, func(*os.File) error { return nil }, sync)
}

// ReplaceAs is Replace for a file that others read: it gets the mode and the owner of
// old, which describes the earlier file, or the mode 0644 if old is nil, for there is no
// earlier file. In its directory NAME.new may be a file of the
// user's: the new file has another name while it is written.
func ReplaceAs(name string, b []byte, old fs.FileInfo, sync func(*os.File) error) error {
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+nextSuffix)
	return replace(name, next, b, func(f *os.File) error {
		if old == nil {
			return f.Chmod(0o644)
		}
		if st, ok := old.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
		return f.Chmod(old.Mode().Perm())
	}, sync)
}

// replace writes the file next, and renames it to name.
func replace(name, next string, b []byte, prepare, sync func(*os.File) error) error {
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := create(next, b, prepare, sync)
	if err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		_ = os.Remove(next) // it may be a secret, and would take room on a full disk
		return err
	}
	return SyncDir(filepath.Dir(name), sync)
}

// create writes a file that does not exist.
func create(name string, b []byte, prepare, sync func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, prepare(f), sync(f), f.Close())
}

// SyncDir puts the names of a directory on stable storage.
func SyncDir(name string, sync func(*os.File) error) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(sync(dir), dir.Close())
}
