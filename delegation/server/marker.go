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

// A grantMarker is a file that says that grants may be outstanding, and
// contains their lease time. It survives the process, and a reboot.
type grantMarker struct {
	path     string
	syncFile func(*os.File) error // (*os.File).Sync
}

// maxMarker is an upper bound for a marker's length in bytes.
const maxMarker = 64

// readLease returns the lease time in the marker, or 0 if there is no marker.
func (m *grantMarker) readLease() (time.Duration, error) {
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
		err = errors.New("invalid lease time")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", m.path, err)
	}
	return lease, nil
}

// writeLease creates the marker if fresh is set, and otherwise replaces it. If
// it returns no error, the marker is on stable storage. Otherwise nothing is
// granted, and a fresh marker is removed again, so that the next server's
// changes do not wait unnecessarily.
func (m *grantMarker) writeLease(lease time.Duration, fresh bool) error {
	err := stablefile.Replace(m.path, []byte(lease.String()+"\n"), m.syncFile)
	if err != nil && fresh {
		_ = os.Remove(m.path)
	}
	return err
}

// removeFile removes the marker from stable storage.
func (m *grantMarker) removeFile() error {
	if err := os.Remove(m.path); err != nil {
		return err
	}
	return stablefile.SyncDir(filepath.Dir(m.path), m.syncFile)
}
