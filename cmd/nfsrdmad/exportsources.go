package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// temporaryName is the name of the lines of exports add --until-restart, which no file has.
const temporaryName = "until restart"

// readSources returns the texts of an exports file and of its drop-ins: the files *.exports in the
// directory FILE.d, in the order of their names, as nfs-utils does with /etc/exports.d. If the file
// cannot be read, it returns none; without a drop-in that cannot be read, the others.
func readSources(name string) ([]exports.Source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, unreadableError(name, err)
	}
	list := []exports.Source{{Name: name, Text: text}}
	entries, err := os.ReadDir(name + ".d") // sorted
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return list, nil
		}
		return list, unreadError{name + ".d", fmt.Errorf("directory %s.d of exports files cannot be read (%w): correct its permissions", name, cli.Cause(err))}
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), ".exports") {
			continue
		}
		text, err := readDropIn(filepath.Join(name+".d", e.Name()))
		if err != nil {
			errs = append(errs, unreadError{filepath.Join(name+".d", e.Name()), err})
			continue
		}
		list = append(list, exports.Source{Name: filepath.Join(name+".d", e.Name()), Text: text})
	}
	return list, errors.Join(errs...)
}

// readDropIn reads a file, but opens no pipe, which could block.
func readDropIn(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: rename it, because it ends in .exports", name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, unreadableError(name, err)
	}
	return text, nil
}

// An unreadError reports that a drop-in, or the directory of all, cannot be read.
type unreadError struct {
	name string
	error
}

func (e unreadError) Unwrap() error { return e.error }

// addUnread adds a broken export for each unreadError joined in err: which exports are missing is
// unknown, so that clients with unknown handles wait.
func addUnread(list []exportSpec, err error) []exportSpec {
	for _, err := range splitJoined(err) {
		u, ok := errors.AsType[unreadError](err)
		if !ok {
			continue
		}
		if name, absErr := filepath.Abs(u.name); absErr == nil { // as an export's path must be
			list = append(list, exportSpec{dir: name, name: name, fault: err, broken: true})
		}
	}
	return list
}

func unreadableError(name string, err error) error {
	return fmt.Errorf("exports file %s cannot be read (%w): correct its name or its permissions", name, cli.Cause(err))
}

// sumSources returns a checksum that identifies the texts of exports files.
func sumSources(list []exports.Source) string {
	h := sha256.New()
	for _, s := range list {
		fmt.Fprintf(h, "%d\n%s", len(s.Text), s.Text) // into memory
	}
	return hex.EncodeToString(h.Sum(nil))
}

// addLine returns the text of the source with index i, with a line that exports dir to clients. It
// fails if dir is already exported to one of them, because only the first of two lines would take
// effect.
func addLine(sources []exports.Source, i int, dir string, clients []string) ([]byte, error) {
	before, err := exports.ParseSources(sources...)
	if err != nil {
		return nil, err
	}
	sources = append([]exports.Source(nil), sources...)
	sources[i].Text = exports.With(sources[i].Text, dir, clients...)
	after, err := exports.ParseSources(sources...)
	if err != nil {
		return nil, err
	}
	if len(after.Warnings) > len(before.Warnings) {
		return nil, after.Warnings[len(after.Warnings)-1]
	}
	return sources[i].Text, nil
}
