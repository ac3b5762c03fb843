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

// The measured amounts: data in bytes, and directory entries.
const (
	Size      = 64 << 20 // the large file's size
	Request   = 1 << 20  // bytes in a read(2) or write(2)
	entries   = 500      // in the directory
	lockPairs = 500      // lock and unlock pairs
)

// A Part is one of Run's measurements.
type Part struct {
	Name    string
	Unit    string  // Work is counted in Unit per second
	Work    float64 // amount per run, in Unit
	measure func(*measurement) error
	cold    bool // begins with empty caches
}

// Data, in this order: each part needs the results of earlier parts.
var dataParts = []Part{
	{Name: "write and fsync", Unit: "MB/s", Work: Size / 1e6, measure: (*measurement).writeFile},
	{Name: "read, O_DIRECT", Unit: "MB/s", Work: Size / 1e6, measure: (*measurement).readDirect, cold: true},
	{Name: "read, page cache", Unit: "MB/s", Work: Size / 1e6, measure: (*measurement).readCached, cold: true},
}

// Names, in this order, too.
var nameParts = []Part{
	{Name: "create", Unit: "files/s", Work: entries, measure: (*measurement).createFiles},
	{Name: "stat", Unit: "files/s", Work: entries, measure: (*measurement).statFiles, cold: true},
	{Name: "list with attributes", Unit: "files/s", Work: entries, measure: (*measurement).listFiles, cold: true},
	{Name: "unlink", Unit: "files/s", Work: entries, measure: (*measurement).unlinkFiles},
}

// Locks without conflicts.
var lockParts = []Part{
	{Name: "lock and unlock", Unit: "pairs/s", Work: lockPairs, measure: (*measurement).lockBytes},
	{Name: "lock and unlock, a new open each time", Unit: "pairs/s", Work: lockPairs, measure: (*measurement).lockOpened},
}

// Part kinds.
const (
	Files = "files" // data, then names
	Names = "names"
	Locks = "locks"
)

// Parts returns Run's measurements for a kind.
func Parts(kind string) []Part {
	return map[string][]Part{Files: slices.Concat(dataParts, nameParts), Names: nameParts, Locks: lockParts}[kind]
}

// A measurement is one run in a directory.
type measurement struct {
	file  string // the large file
	dir   string // contains the small files
	names []string
	data  []byte // a request's data
}

// Run performs the Parts of a kind in dir and writes each one's duration in seconds to
// out, one per line. Run needs root to empty the system's caches.
func Run(kind, dir string, out io.Writer) error {
	r := &measurement{file: filepath.Join(dir, "large"), dir: filepath.Join(dir, "many")}
	for i := range entries {
		r.names = append(r.names, filepath.Join(r.dir, fmt.Sprintf("file%04d", i)))
	}
	var err error
	if r.data, err = allocatePages(Request); err != nil {
		return err
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	for _, p := range Parts(kind) {
		if p.cold {
			if err := dropCaches(); err != nil {
				return err
			}
		}
		start := time.Now()
		if err := p.measure(r); err != nil {
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
