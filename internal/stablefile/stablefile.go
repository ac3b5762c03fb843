// Package stablefile writes a small file atomically: after a crash of the process
// or the machine the file has either its old content or its new one. The package
// must not depend on the content.
package stablefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// nextSuffix is appended to the name of a file that is being written.
const nextSuffix = ".new"

// Replace writes a file with mode 0600 and content b, and replaces an earlier file
// with that name. The caller must prevent concurrent writes of the same file. sync
// puts a file or directory on stable storage; it is (*os.File).Sync except in
// tests. If Replace returns no error, the file is on stable storage. After an error
// the file is the old one, except that a failed sync of the directory leaves the
// new one, which a power failure may undo.
func Replace(name string, b []byte, sync func(*os.File) error) error {
	return replaceFile(name, name+nextSuffix, b, func(*os.File) error { return nil }, sync)
}

// ReplaceAs replaces a file that others read: the new file gets the mode and the
// owner of old, which describes the earlier file, or the mode 0644 if old is nil,
// because there is no earlier file. In its directory NAME.new may be a file of the
// user's: the new file has another name while it is written.
func ReplaceAs(name string, b []byte, old fs.FileInfo, sync func(*os.File) error) error {
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+nextSuffix)
	return replaceFile(name, next, b, func(f *os.File) error {
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

// replaceFile writes the file next, and renames it to name.
func replaceFile(name, next string, b []byte, prepare, sync func(*os.File) error) error {
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := createFile(next, b, prepare, sync)
	if err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		_ = os.Remove(next) // it may be a secret, and would take space on a full disk
		return err
	}
	return SyncDir(filepath.Dir(name), sync)
}

// createFile writes a file that must not exist.
func createFile(name string, b []byte, prepare, sync func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, prepare(f), sync(f), f.Close())
}

// SyncDir puts a directory's names on stable storage.
func SyncDir(name string, sync func(*os.File) error) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(sync(dir), dir.Close())
}
