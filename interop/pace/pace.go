package pace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The measured amounts: data in bytes, and entries of a directory.
const (
	Size    = 64 << 20 // of the large file
	Request = 1 << 20  // bytes in a read(2) or write(2)
	entries = 500      // of the directory
	pairs   = 500      // of a lock and an unlock
)

// A Part is a measurement of Run.
type Part struct {
	Name string
	Unit string  // of Work per second
	Work float64 // of a run, in Unit
	do   func(*run) error
	cold bool // begins with empty caches
}

// Data, in this order: each part needs the results of earlier parts.
var ofData = []Part{
	{Name: "write and fsync", Unit: "MB/s", Work: Size / 1e6, do: (*run).write},
	{Name: "read, O_DIRECT", Unit: "MB/s", Work: Size / 1e6, do: (*run).readDirect, cold: true},
	{Name: "read, page cache", Unit: "MB/s", Work: Size / 1e6, do: (*run).read, cold: true},
}

// Names, in this order, too.
var ofNames = []Part{
	{Name: "create", Unit: "files/s", Work: entries, do: (*run).create},
	{Name: "stat", Unit: "files/s", Work: entries, do: (*run).stat, cold: true},
	{Name: "list with attributes", Unit: "files/s", Work: entries, do: (*run).list, cold: true},
	{Name: "unlink", Unit: "files/s", Work: entries, do: (*run).unlink},
}

// Locks, which are in nobody's way.
var ofLocks = []Part{
	{Name: "lock and unlock", Unit: "pairs/s", Work: pairs, do: (*run).lock},
	{Name: "lock and unlock, a new open each time", Unit: "pairs/s", Work: pairs, do: (*run).lockOpened},
}

// The kinds of Parts.
const (
	Files = "files" // data, then names
	Names = "names"
	Locks = "locks"
)

// Parts returns the measurements of Run of a kind.
func Parts(kind string) []Part {
	return map[string][]Part{Files: slices.Concat(ofData, ofNames), Names: ofNames, Locks: ofLocks}[kind]
}

// A run measures in a directory.
type run struct {
	file  string // the large file
	dir   string // of the small files
	names []string
	data  []byte // of a request
}

// Run does the Parts of a kind in dir and writes the seconds of each to out, one
// line each. Run needs root to empty the system's caches.
func Run(kind, dir string, out io.Writer) error {
	r := &run{file: filepath.Join(dir, "large"), dir: filepath.Join(dir, "many")}
	for i := range entries {
		r.names = append(r.names, filepath.Join(r.dir, fmt.Sprintf("file%04d", i)))
	}
	var err error
	if r.data, err = pages(Request); err != nil {
		return err
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	for _, p := range Parts(kind) {
		if p.cold {
			if err := forget(); err != nil {
				return err
			}
		}
		start := time.Now()
		if err := p.do(r); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if _, err := fmt.Fprintln(out, time.Since(start).Seconds()); err != nil {
			return err
		}
	}
	if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) { // names need no large file
		return err
	}
	return os.Remove(r.dir)
}
