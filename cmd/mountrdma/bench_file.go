package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A reportFile is the file of --report. It has a temporary name until it is complete, so
// that no reader sees an incomplete report, and an earlier one remains if bench fails.
type reportFile struct {
	*os.File
	finalName string
}

// openReport creates the file before the measurement, which may be long, so that an
// unwritable directory is detected at once. It returns nil if name is "".
func openReport(name string) (*reportFile, error) {
	if name == "" {
		return nil, nil
	}
	at, mode := name, fs.FileMode(0o666)
	if old, err := os.Stat(name); err == nil {
		if !old.Mode().IsRegular() {
			return nil, fmt.Errorf("--report %s: is no regular file", name)
		}
		mode = old.Mode().Perm()                                  // users who could not read the old report must not read the new one
		if file, err := filepath.EvalSymlinks(name); err == nil { // keep a symbolic link
			at = file
		}
	}
	f, err := os.OpenFile(fmt.Sprintf("%s.%d.new", at, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	if err != nil {
		return nil, fmt.Errorf("--report %s: %w", name, err)
	}
	return &reportFile{f, at}, nil
}

// commit writes the content and renames the file. If that fails, it removes the file.
func (f *reportFile) commit(content []byte) error {
	_, err := f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), f.finalName)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("--report %s: %w", f.finalName, err)
	}
	return nil
}

// discard removes the file unless it was committed. It does nothing if f is nil.
func (f *reportFile) discard() {
	if f != nil && f.Close() == nil {
		_ = os.Remove(f.Name())
	}
}
