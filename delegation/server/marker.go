package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// A marker is a file that says that grants may be outstanding, and how long
// their lease is. It survives the end of the process and of the machine.
type marker struct {
	path string
	sync func(*os.File) error // (*os.File).Sync
}

// maxMarker exceeds the length of every marker, in bytes.
const maxMarker = 64

// read returns the lease that the marker names; 0 if there is no marker.
func (m *marker) read() (time.Duration, error) {
	f, err := os.OpenFile(m.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, maxMarker)
	n, err := f.Read(b)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.path, err)
	}
	lease, err := time.ParseDuration(strings.TrimSuffix(string(b[:n]), "\n"))
	if err == nil && (lease <= 0 || lease > MaxLease) {
		err = errors.New("unknown lease")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.path, err)
	}
	return lease, nil
}

// write creates the marker, or replaces an existing marker if it is not fresh.
// If write returns no error, the marker is on stable storage. Otherwise nothing
// is granted because of it, and a fresh marker is removed again: the next
// server would have its changes wait for nobody.
func (m *marker) write(lease time.Duration, fresh bool) error {
	err := stablefile.Replace(m.path, []byte(lease.String()+"\n"), m.sync)
	if err != nil && fresh {
		_ = os.Remove(m.path)
	}
	return err
}

// remove removes the marker.
func (m *marker) remove() error {
	if err := os.Remove(m.path); err != nil {
		return err
	}
	return stablefile.SyncDir(filepath.Dir(m.path), m.sync)
}
