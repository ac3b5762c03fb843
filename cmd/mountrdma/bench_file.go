package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A reportFile is the file of --report. It has another name until it is complete,
// so that nobody reads a part of it, and an earlier one stays if the measurement fails.
type reportFile struct {
	*os.File
	name string // to be
}

// openReport begins a file before the measurement, which may be long: a directory
// that cannot be written shows at once. It returns nil if name is "".
func openReport(name string) (*reportFile, error) {
	if name == "" {
		return nil, nil
	}
	at, mode := name, fs.FileMode(0o666)
	if old, err := os.Stat(name); err == nil {
		if !old.Mode().IsRegular() {
			return nil, fmt.Errorf("--report %s: is no regular file", name)
		}
		mode = old.Mode().Perm()                                  // others may not read what they could not
		if file, err := filepath.EvalSymlinks(name); err == nil { // a link stays one
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

// finish writes the content, and gives the file its name. If that fails, it removes the file.
func (f *reportFile) finish(content []byte) error {
	_, err := f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), f.name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("--report %s: %w", f.name, err)
	}
	return nil
}

// abandon removes a file that is not finished. It does nothing if f is nil.
func (f *reportFile) abandon() {
	if f != nil && f.Close() == nil {
		_ = os.Remove(f.Name())
	}
}
